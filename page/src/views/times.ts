// Distribution of the times of transfers of both runs, with bands over the seeds, and the measures with their intervals.

import { draw, told, type Chart } from "../charts";
import { tag } from "../controls";
import { LABELS, type Group, type Mean, type Progress } from "../study";
import type { Curve } from "../timeline";

/** Share of transfers that may be beyond the right edge. */
const FEW = 0.003;
/** Colours of both runs: blue and orange; the second is dashed, too. */
const COLOURS = [0, 1] as const;

/** Draws the distribution of each group into `place`, and the table below it. */
export function drawTimes(place: HTMLElement, names: [string, string], progress: Progress): void {
  const [base, ours] = progress.summaries;
  const groups = ours.groups.filter(({ name }) => base.groups.some((other) => other.name === name));
  const parts = groups.map((group) => {
    const key = `${group.name}`;
    const found = [...place.children].find((child) => (child as HTMLElement).dataset["group"] === key) as HTMLElement | undefined;
    const part = found ?? tag("section", { "data-group": key }, tag("div", { class: "chart" }), tag("div", {}));
    return { part, group, other: base.groups.find(({ name }) => name === group.name)! };
  });
  if (place.children.length !== parts.length || parts.some(({ part }, at) => place.children[at] !== part)) {
    place.replaceChildren(...parts.map(({ part }) => part));
  }
  for (const { part, group, other } of parts) {
    drawCurves(part.children[0] as HTMLElement, names, [other, group]);
    part.children[1]!.replaceChildren(measures(group.name, names, [other, group]));
  }
}

function drawCurves(place: HTMLElement, names: [string, string], groups: [Group, Group]): void {
  const times = [...new Set(groups.flatMap(({ curve }) => [...curve.timesS]))].sort((a, b) => a - b);
  if (times.length === 0) {
    place.replaceChildren("No transfer has ended.");
    return;
  }
  const at = [0, ...times];
  const curves: Curve[] = [], bands: [number, number, number][] = [];
  groups.forEach(({ curve, finished, started }, side) => {
    const name = names[side]! + (finished < started ? ` (${started - finished} not over)` : "");
    const of = (values: Float64Array): (number | null)[] => steps(at, curve.timesS, values);
    const colour = COLOURS[side]!;
    const first = curves.length;
    curves.push({ name, values: of(curve.above), colour, isDashed: side === 1 });
    curves.push({ name: `${name}, upper`, values: of(curve.high), colour, isEdge: true });
    curves.push({ name: `${name}, lower`, values: of(curve.low), colour, isEdge: true });
    bands.push([first + 1, first + 2, first]);
  });
  const title = `${groups[0].name}: share of ${groups[0].kind} that take longer, %`;
  const again = (range: [number, number]): void => {
    const chart: Chart = { title, unit: "%", along: "time of a transfer, s", at, range, curves, bands, top: 100 / 1.1, height: 320, isSharp: true };
    draw(place, chart, ([from, until]) => again(until > from ? [from, until] : [0, times.at(-1)!]));
  };
  again([0, usualEnd(groups)]);
}

/** Returns the time that few transfers of either run exceed. */
function usualEnd(groups: [Group, Group]): number {
  const ends = groups.map(({ curve: { timesS, above } }) => timesS[above.findIndex((share) => share <= FEW)] ?? timesS.at(-1) ?? 0);
  return 1.1 * Math.max(...ends);
}

/** Returns the values of a step curve at other times, in percent: 100 before the first. */
function steps(at: number[], times: Float64Array, values: Float64Array): (number | null)[] {
  let next = 0, now: number | null = 100;
  return at.map((time) => {
    while (next < times.length && times[next]! <= time) {
      const value = 100 * values[next]!;
      now = Number.isFinite(value) ? value : null;
      next += 1;
    }
    return now;
  });
}

function measures(group: string, names: [string, string], groups: [Group, Group]): HTMLElement {
  const keys = Object.keys(LABELS).filter((key) => groups.every(({ means }) => key in means));
  const rows = keys.map((key) =>
    tag("tr", {}, tag("th", { scope: "row" }, LABELS[key]!), ...groups.map(({ means }) => tag("td", {}, withInterval(means[key]!)))),
  );
  const head = tag("tr", {}, tag("th", { scope: "col" }, "measure"), ...names.map((name) => tag("th", { scope: "col" }, name)));
  const caption = tag("caption", {}, `${group}: means over the seeds with intervals of 95 %`);
  return tag("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${group}: measures` }, tag("table", {}, caption, tag("thead", {}, head), tag("tbody", {}, ...rows)));
}

function withInterval([mean, low, high]: Mean): string {
  if (low === null || high === null || mean === null) {
    return mean === null ? "–" : told(mean);
  }
  const half = (high - low) / 2, size = Math.floor(Math.log10(Math.abs(mean) || 1));
  // Two significant digits of the half width, but at most five of the mean.
  const digits = Math.max(0, Math.min(half > 0 ? 1 - Math.floor(Math.log10(half)) : 3, 4 - size));
  return `${mean.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
}
