// Charts over time and of distributions by uPlot: one cursor for all of a page, zoom by dragging or with keys, a double click for the whole.

import uPlot from "uplot";
import type { Curve } from "./timeline";

/** Colours of Okabe and Ito, and of priorities from LOW to HIGH, as in the figures of the reports (figures/style.py). */
const LIGHT = {
  curves: ["#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00"],
  priorities: ["#bba6d8", "#7d5bb3", "#412173"],
  drop: "#d55e00",
  mark: "#009e73",
  ack: "#7b8794",
};
const DARK: typeof LIGHT = {
  curves: ["#4ba3e3", "#e9a820", "#dd92ba", "#25b98d", "#8ed0f7", "#f0803a"],
  priorities: ["#6b4fa3", "#a487d8", "#e2d8fa"],
  drop: "#f0803a",
  mark: "#25b98d",
  ack: "#8b98a5",
};
const HEIGHT = 200;

export interface Chart {
  title: string;
  unit: string;
  /** Label of the horizontal axis. */
  along: string;
  at: number[];
  range: [number, number];
  curves: Curve[];
  isStacked?: boolean;
  /** Bands between two curves, by their indices, in the colour of the curve with the third index. */
  bands?: [number, number, number][];
  /** Strokes at the upper edge, by kind. */
  strokes?: Partial<Record<"drop" | "mark", number[]>>;
  /** Lowest and highest value of the scale. */
  bottom?: number;
  top: number;
  height?: number;
  /** Draws more on the canvas, above the curves. */
  more?: (plot: uPlot) => void;
  /** True if curves are steps. */
  isSharp?: boolean;
  /** True if each value has a point, and no line. */
  hasPoints?: boolean;
}

export interface Ink {
  ink: string;
  soft: string;
  line: string;
  paper: string;
  colours: typeof LIGHT;
}

/** Returns the colours of the page as it is shown. */
export function inkOf(): Ink {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  return { ink: of("ink"), soft: of("soft"), line: of("line"), paper: of("paper"), colours: isDark ? DARK : LIGHT };
}

interface Drawn {
  key: string;
  plot: uPlot;
  chart: Chart;
  zoom: (range: [number, number]) => void;
}

const drawn = new WeakMap<HTMLElement, Drawn>();

/** Draws a chart into `place`; `zoom` receives the range that was chosen. A chart like the one that is there takes its place without a new one. */
export function draw(place: HTMLElement, chart: Chart, zoom: (range: [number, number]) => void): uPlot {
  const width = Math.max(240, place.clientWidth);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const key = JSON.stringify([chart.title, chart.unit, chart.along, chart.height, width, dark, chart.isStacked, chart.bands, chart.curves.map(({ name }) => name)]);
  const [from, until] = chart.range;
  place.setAttribute("aria-label", `${chart.title}, from ${told(from)} to ${told(until)}. Arrow keys read values, plus looks closer, zero shows all.`);
  const before = drawn.get(place);
  const curves = chart.isStacked === true ? [...chart.curves].reverse() : chart.curves;
  const data: uPlot.AlignedData = [chart.at, ...curves.map((curve) => curve.values)];
  if (before?.key === key) {
    before.chart = chart;
    before.zoom = zoom;
    before.plot.setData(data);
    return before.plot;
  }
  before?.plot.destroy();
  place.replaceChildren();
  const now: Drawn = { key, chart, zoom, plot: undefined as unknown as uPlot };
  now.plot = new uPlot(options(now, width, curves), data, place);
  // The canvas says nothing of its own; the place that holds it does.
  place.setAttribute("role", "img");
  place.tabIndex = 0;
  place.onkeydown = (event) => moved(now, event);
  drawn.set(place, now);
  return now.plot;
}

function options(now: Drawn, width: number, curves: Curve[]): uPlot.Options {
  const { chart } = now, { ink, line, colours } = inkOf();
  const axis: uPlot.Axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  const stepped = uPlot.paths.stepped!({ align: 1 });
  // What is stacked is drawn from the highest sum down, so that each lies before those above it.
  const series = curves.map((curve, at): uPlot.Series => {
    const number = chart.isStacked === true ? curves.length - 1 - at : (curve.colour ?? at);
    const palette = chart.isStacked === true ? colours.priorities : colours.curves;
    const colour = palette[number % palette.length]!;
    const shape = chart.hasPoints === true ? { width: 0 } : chart.isStacked === true ? { fill: colour, width: 0 } : { width: curve.isEdge === true ? 0 : 1.5, ...(curve.isDashed === true ? { dash: [6, 4] } : {}) };
    const value = (_plot: uPlot, drawn: number | null, _series: number, at: number | null): string => {
      const of = chart.isStacked === true ? [...now.chart.curves].reverse() : now.chart.curves;
      const values = of.find(({ name }) => name === curve.name)?.told;
      const found = values === undefined || at === null ? drawn : (values[at] ?? null);
      return found === null || found === undefined ? "–" : told(found);
    };
    return { label: curve.name, class: curve.isEdge === true ? "edge" : "curve", stroke: colour, points: { show: chart.hasPoints === true, size: 3, fill: colour }, spanGaps: false, value, ...(chart.isSharp === true ? { paths: stepped } : {}), ...shape };
  });
  const bands = (chart.bands ?? []).map(([upper, lower, of]): uPlot.Band => {
    const colour = colours.curves[curves[of]!.colour ?? of]!;
    return { series: [upper + 1, lower + 1], fill: `${colour}2e` };
  });
  return {
    title: chart.title,
    width,
    height: chart.height ?? HEIGHT,
    scales: {
      x: { time: false, range: () => now.chart.range },
      y: { range: () => [now.chart.bottom ?? 0, (now.chart.top || 1) * (now.chart.bottom === undefined ? 1.1 : 1)] },
    },
    axes: [{ ...axis, label: chart.along, labelSize: 22 }, { ...axis, label: chart.unit, labelSize: 22, size: 56 }],
    series: [{ label: chart.along, value: (_plot, value: number | null) => (value === null ? "–" : told(value)) }, ...series],
    bands,
    legend: { show: true },
    cursor: { sync: { key: chart.along }, drag: { x: true, y: false, setScale: false } },
    hooks: {
      setSelect: [
        (of) => {
          if (of.select.width > 4) {
            now.zoom([of.posToVal(of.select.left, "x"), of.posToVal(of.select.left + of.select.width, "x")]);
          }
        },
      ],
      draw: [
        (of) => {
          const { strokes = {}, more } = now.chart;
          strokesOf(of, strokes.drop ?? [], colours.drop, 0);
          strokesOf(of, strokes.mark ?? [], colours.mark, 9);
          more?.(of);
        },
      ],
    },
  };
}

/** Moves the cursor of a chart, or its range, with keys. */
function moved({ plot, chart, zoom }: Drawn, event: KeyboardEvent): void {
  const [from, until] = chart.range, width = until - from;
  const to = (first: number): void => zoom([Math.max(0, first), Math.max(0, first) + width]);
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by !== undefined && event.shiftKey) {
    to(from + (by * width) / 4);
  } else if (by !== undefined) {
    const last = chart.at.length - 1;
    const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? (by > 0 ? -1 : last + 1)) + by));
    plot.setCursor({ left: plot.valToPos(chart.at[index]!, "x"), top: plot.over.clientHeight / 2 });
    const values = chart.curves.map(({ name, values: of, told: said }) => `${name} ${(said ?? of)[index] === null ? "none" : told((said ?? of)[index]!)}`);
    say(`${chart.along} ${told(chart.at[index]!)}: ${values.join(", ")} ${chart.unit}`);
  } else if (event.key === "+" || event.key === "=") {
    const centre = plot.cursor.idx == null ? (from + until) / 2 : chart.at[plot.cursor.idx]!;
    zoom([Math.max(0, centre - width / 4), centre + width / 4]);
  } else if (event.key === "0") {
    zoom([0, 0]);
  } else {
    return;
  }
  event.preventDefault();
}

/** Tells screen readers something that has no place on the page. */
export function say(text: string): void {
  document.getElementById("said")!.textContent = text;
}

/** Formats a number with four digits. */
export function told(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** Draws a stroke below the upper edge for each time. */
function strokesOf(plot: uPlot, at: number[], colour: string, below: number): void {
  const { ctx, bbox } = plot, scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = scale;
  ctx.beginPath();
  for (const one of at) {
    const x = Math.round(plot.valToPos(one, "x", true));
    if (x >= bbox.left && x <= bbox.left + bbox.width) {
      ctx.moveTo(x, bbox.top + below * scale);
      ctx.lineTo(x, bbox.top + (below + 8) * scale);
    }
  }
  ctx.stroke();
  ctx.restore();
}
