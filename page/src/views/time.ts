// What happens over time, of both runs one above the other on one axis and one scale.

import { draw, type Chart } from "../charts";
import type { Timeline } from "../timeline";

type Column = (of: Timeline) => Pick<Chart, "unit" | "curves" | "isStacked" | "strokes"> & { what: string };

const COLUMNS: Column[] = [
  (of) => ({ what: "cwnd", unit: "kB", curves: of.cwndKB, strokes: { drop: of.timeoutsS } }),
  (of) => ({
    what: `queue of ${of.link}`,
    unit: "packets",
    curves: of.queue,
    isStacked: true,
    strokes: { drop: of.dropsS, mark: of.marksS },
  }),
  (of) => ({ what: "data in flight", unit: "kB", curves: of.inFlightKB }),
  (of) => ({ what: "time in queue and transmission", unit: "ms", curves: of.delayMs }),
  (of) => ({ what: "smoothed round trip", unit: "ms", curves: of.srttMs }),
  (of) => ({ what: "rate of the links", unit: "Mbit/s", curves: of.rateMbps }),
  (of) => ({ what: "goodput", unit: "Mbit/s", curves: of.goodputMbps }),
];

/** Draws the timelines of two runs into the pairs below `place`. */
export function drawTime(place: HTMLElement, drawn: [string, Timeline][], zoom: (rangeS: [number, number]) => void): void {
  const pairs = [...place.children] as HTMLElement[];
  // The axis is that of the longer run.
  const range: [number, number] = [
    Math.min(...drawn.map(([, of]) => of.rangeS[0])),
    Math.max(...drawn.map(([, of]) => of.rangeS[1])),
  ];
  const draws: [HTMLElement, () => void][] = [];
  COLUMNS.forEach((column, at) => {
    const charts = drawn.map(([name, of]) => {
      const { what, ...chart } = column(of);
      return { ...chart, title: `${name}: ${what}`, along: "time, s", at: of.atS, range };
    });
    const top = charts.reduce((most, chart) => Math.max(most, highest(chart.curves)), 0);
    charts.forEach((chart, row) => draws.push([pairs[at]!.children[row] as HTMLElement, () => draw(pairs[at]!.children[row] as HTMLElement, { ...chart, top }, zoom)]));
  });
  // Those in sight come first; the others when nothing newer is to be drawn.
  const isInSight = (one: HTMLElement): boolean => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0;
  const seen = new Set(draws.filter(([one]) => isInSight(one)).map(([one]) => one));
  draws.filter(([one]) => seen.has(one)).forEach(([, act]) => act());
  const rest = draws.filter(([one]) => !seen.has(one));
  clearTimeout(waiting);
  const next = (): void => {
    rest.splice(0, 2).forEach(([, act]) => act());
    if (rest.length > 0) {
      waiting = setTimeout(next);
    }
  };
  waiting = setTimeout(next);
}

let waiting: ReturnType<typeof setTimeout> | undefined;

/** Returns empty places for all drawings. */
export function timePlaces(): HTMLElement[] {
  return COLUMNS.map(() => {
    const pair = document.createElement("div");
    pair.className = "pair";
    pair.append(document.createElement("div"), document.createElement("div"));
    return pair;
  });
}

function highest(curves: { values: (number | null)[] }[]): number {
  let most = 0;
  for (const { values } of curves) {
    for (const value of values) {
      if (value !== null && value > most) {
        most = value;
      }
    }
  }
  return most;
}
