// Charts over time by uPlot: one cursor for all of a page, zoom by dragging, a double click for the whole.

import uPlot from "uplot";
import type { Curve } from "./timeline";

/** Colours of Okabe and Ito, and of priorities from LOW to HIGH, as in the figures of the reports (figures/style.py). */
const LIGHT = {
  curves: ["#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00"],
  priorities: ["#bba6d8", "#7d5bb3", "#412173"],
  drop: "#d55e00",
};
const DARK: typeof LIGHT = {
  curves: ["#4ba3e3", "#e9a820", "#dd92ba", "#25b98d", "#8ed0f7", "#f0803a"],
  priorities: ["#6b4fa3", "#a487d8", "#e2d8fa"],
  drop: "#f0803a",
};
const HEIGHT = 200;

export interface Chart {
  title: string;
  unit: string;
  atS: number[];
  rangeS: [number, number];
  curves: Curve[];
  isStacked?: boolean;
  dropsS?: number[];
  /** Highest value of the scale. */
  top: number;
}

/** Draws a chart into `place`, which it empties; `zoom` receives the range that was dragged over. */
export function draw(place: HTMLElement, chart: Chart, zoom: (rangeS: [number, number]) => void): uPlot {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = [style.getPropertyValue("--ink"), style.getPropertyValue("--line")];
  const colours = matchMedia("(prefers-color-scheme: dark)").matches ? DARK : LIGHT;
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  // What is stacked is drawn from the highest sum down, so that each lies before those above it.
  const curves = chart.isStacked === true ? [...chart.curves].reverse() : chart.curves;
  const series = curves.map((curve, at): uPlot.Series => {
    const number = chart.isStacked === true ? curves.length - 1 - at : at;
    const colour = (chart.isStacked === true ? colours.priorities : colours.curves)[number % colours.curves.length]!;
    const shape = chart.isStacked === true ? { fill: colour, width: 0 } : { width: 1.5 };
    const value = (_plot: uPlot, drawn: number | null, _series: number, at: number | null): string => {
      const told = curve.told === undefined || at === null ? drawn : (curve.told[at] ?? null);
      return told === null ? "–" : String(Number(told.toPrecision(4)));
    };
    return { label: curve.name, stroke: colour, points: { show: false }, spanGaps: false, value, ...shape };
  });
  place.replaceChildren();
  const plot = new uPlot(
    {
      title: chart.title,
      width: Math.max(280, place.clientWidth),
      height: HEIGHT,
      scales: { x: { time: false, range: () => chart.rangeS }, y: { range: () => [0, chart.top * 1.1 || 1] } },
      axes: [{ ...axis, label: "time, s", labelSize: 22 }, { ...axis, label: chart.unit, labelSize: 22, size: 56 }],
      series: [{ label: "time, s" }, ...series],
      cursor: { sync: { key: "time" }, drag: { x: true, y: false, setScale: false } },
      hooks: {
        setSelect: [
          (of) => {
            if (of.select.width > 4) {
              const from = of.posToVal(of.select.left, "x");
              zoom([from, of.posToVal(of.select.left + of.select.width, "x")]);
            }
          },
        ],
        draw: [(of) => strokes(of, chart.dropsS ?? [], colours.drop)],
      },
    },
    [chart.atS, ...curves.map((curve) => curve.values)],
    place,
  );
  return plot;
}

/** Draws a stroke at the upper edge for each drop. */
function strokes(plot: uPlot, atS: number[], colour: string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  for (const at of atS) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x >= bbox.left && x <= bbox.left + bbox.width) {
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + 8 * devicePixelRatio);
    }
  }
  ctx.stroke();
  ctx.restore();
}
