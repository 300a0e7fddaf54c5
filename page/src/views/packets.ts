// Packets of one connection of both runs: the sequence plot, and a ladder with the packets in flight.

import type uPlot from "uplot";
import { draw, inkOf, say, told, type Chart } from "../charts";
import { tag } from "../controls";
import type { Reply } from "../message";
import { delaysOf, ladderOf, segmentsOf, type Journey, type Ladder, type SegmentEvent } from "../packets";

const SPEEDS = [1, 10, 100, 1000];
/** Number of steps that a page of the keyboard skips. */
const PAGE = 20;

/** View with a plot and a ladder for each run, and one time for both ladders. */
export class Packets {
  readonly #plots: [HTMLElement, HTMLElement];
  readonly #delays: [HTMLElement, HTMLElement];
  readonly #canvases: [HTMLCanvasElement, HTMLCanvasElement];
  readonly #scrub = tag("input", { type: "range", min: "0", max: "1000", value: "0", "aria-label": "time of the ladder" });
  readonly #play = tag("button", { type: "button" }, "Play");
  readonly #speed = tag("select", { "aria-label": "speed" });
  readonly #window = tag("select", { "aria-label": "time in sight" });
  readonly #now = tag("output", {});
  #ladders: [Ladder, Ladder] | null = null;
  #rangeS: [number, number] = [0, 1];
  #nowS = 0;
  #playing: number | null = null;
  /** Times between the frames of the last second of playing, ms. */
  readonly frames: number[] = [];

  constructor(place: HTMLElement) {
    const pair = (): [HTMLElement, HTMLElement] => [tag("div", {}), tag("div", {})];
    this.#plots = pair();
    this.#delays = pair();
    this.#canvases = [0, 1].map(() => tag("canvas", { class: "ladder", tabindex: "0", role: "img" })) as [HTMLCanvasElement, HTMLCanvasElement];
    this.#speed.append(...SPEEDS.map((one) => tag("option", { value: String(one) }, one === 1 ? "real time" : `1/${one}`)));
    this.#speed.value = "10";
    this.#window.append(...["1", "0.5", "0.2", "0.1", "0.05", "0.02", "0.01"].map((one) => tag("option", { value: one }, one === "1" ? "all" : `${100 * Number(one)} %`)));
    const bar = tag("div", { class: "bar" }, this.#play, tag("label", {}, "Speed", this.#speed), tag("label", {}, "In sight", this.#window), this.#scrub, this.#now);
    const hint = tag("p", { class: "hint" }, "Time runs downwards. HIGH packets have squares and the strongest lines, LOW ones circles; thin grey lines come from the client, and a cross is a drop. Arrow keys go from step to step, Page Up and Page Down by many, Space plays.");
    place.replaceChildren(tag("div", { class: "pair wide" }, ...this.#plots, ...this.#delays), bar, hint, tag("div", { class: "pair wide" }, ...this.#canvases));
    this.#play.addEventListener("click", () => this.#toggle());
    this.#scrub.addEventListener("input", () => {
      const [from, until] = this.#rangeS;
      this.#move(from + (Number(this.#scrub.value) / 1000) * (until - from));
    });
    this.#window.addEventListener("change", () => this.#paint());
    for (const one of [...this.#canvases, this.#scrub] as HTMLElement[]) {
      one.addEventListener("keydown", (event) => this.#key(event));
    }
  }

  /** Draws what both runs have of their connections. */
  show(names: [string, string], replies: [Reply, Reply], zoom: (rangeS: [number, number]) => void): void {
    const ranges = replies.map(({ head }) => head["range_s"] as [number, number]);
    const rangeS: [number, number] = [Math.min(ranges[0]![0], ranges[1]![0]), Math.max(ranges[0]![1], ranges[1]![1])];
    const segments = replies.map(segmentsOf);
    const ends = segments.flat().map(({ toBytes, kind }) => (kind === "ack" ? 0 : toBytes));
    const starts = segments.flat().filter(({ kind }) => kind === "data").map(({ fromBytes }) => fromBytes);
    const top = Math.max(1, ...ends) / 1e3, bottom = Math.min(top, ...starts.map((one) => one / 1e3));
    names.forEach((name, at) => drawSequence(this.#plots[at]!, name, segments[at]!, rangeS, bottom, top, zoom));
    this.#ladders = replies.map(ladderOf) as [Ladder, Ladder];
    const delays = this.#ladders.map(delaysOf);
    const longestMs = Math.max(0, ...delays.flatMap(({ delayMs }) => delayMs));
    delays.forEach(({ atS, delayMs, jitterMs }, at) => {
      const title = `${names[at]}: one-way delay, jitter ${told(jitterMs)} ms`;
      const curves = [{ name: "delay", values: delayMs }];
      draw(this.#delays[at]!, { title, unit: "ms", along: "time, s", at: atS, range: rangeS, curves, top: longestMs, hasPoints: true }, zoom);
    });
    const isNew = rangeS.some((one, at) => one !== this.#rangeS[at]);
    this.#rangeS = rangeS;
    this.#canvases.forEach((canvas, at) => canvas.setAttribute("aria-label", `${names[at]}: ${this.#ladders![at]!.journeys.length} packets between ${this.#ladders![at]!.lanes.join(", ")}. Arrow keys read them step by step.`));
    this.#move(isNew ? rangeS[1] : Math.min(rangeS[1], Math.max(rangeS[0], this.#nowS)));
  }

  /** Stops playing. */
  stop(): void {
    if (this.#playing !== null) {
      cancelAnimationFrame(this.#playing);
      this.#playing = null;
    }
    this.#play.textContent = "Play";
  }

  #toggle(): void {
    if (this.#playing !== null) {
      this.stop();
      return;
    }
    const [from, until] = this.#rangeS;
    if (this.#nowS >= until) {
      this.#nowS = from;
    }
    this.#play.textContent = "Pause";
    this.frames.length = 0;
    let last: number | null = null;
    const frame = (at: number): void => {
      const passedMs = last === null ? 0 : at - last;
      if (last !== null) {
        this.frames.push(passedMs);
        this.frames.splice(0, this.frames.length - 120);
      }
      last = at;
      this.#move(Math.min(until, this.#nowS + passedMs / 1e3 / Number(this.#speed.value)));
      if (this.#nowS >= until) {
        this.stop();
      } else {
        this.#playing = requestAnimationFrame(frame);
      }
    };
    this.#playing = requestAnimationFrame(frame);
  }

  #key(event: KeyboardEvent): void {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity }[event.key];
    if (by !== undefined) {
      this.stop();
      this.#step(by);
    } else if (event.key === " ") {
      this.#toggle();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Goes to the next step of either run, and says it. */
  #step(by: number): void {
    const steps = (this.#ladders ?? []).flatMap(({ steps: of }) => of).sort((a, b) => a.atS - b.atS);
    if (steps.length === 0) {
      return;
    }
    const tiny = 1e-9;
    const next = steps.findIndex(({ atS }) => atS > this.#nowS + tiny);
    const behind = next === -1 ? steps.length : next;
    const before = steps.findLastIndex(({ atS }) => atS < this.#nowS - tiny);
    const index = Math.min(steps.length - 1, Math.max(0, by > 0 ? behind + by - 1 : before + by + 1));
    const step = steps[index]!;
    this.#move(step.atS);
    say(`${step.atS.toFixed(4)} s: ${step.text}`);
    this.#now.textContent = `${step.atS.toFixed(4)} s: ${step.text}`;
  }

  #move(nowS: number): void {
    this.#nowS = nowS;
    const [from, until] = this.#rangeS;
    this.#scrub.value = String(Math.round((1000 * (nowS - from)) / (until - from || 1)));
    this.#scrub.setAttribute("aria-valuetext", `${nowS.toFixed(3)} s`);
    this.#now.textContent = `${nowS.toFixed(4)} s`;
    this.#paint();
  }

  #paint(): void {
    if (this.#ladders === null) {
      return;
    }
    const [from, until] = this.#rangeS, span = (until - from) * Number(this.#window.value);
    const first = Math.min(until - span, Math.max(from, this.#nowS - 0.8 * span));
    this.#canvases.forEach((canvas, at) => paint(canvas, this.#ladders![at]!, [first, first + span], this.#nowS));
  }
}

function drawSequence(
  place: HTMLElement,
  name: string,
  events: SegmentEvent[],
  range: [number, number],
  bottom: number,
  top: number,
  zoom: (rangeS: [number, number]) => void,
): void {
  const acks = events.filter(({ kind }) => kind === "ack");
  const chart: Chart = {
    title: `${name}: segments, ACKs and the window`,
    unit: "kB",
    along: "time, s",
    at: acks.map(({ atS }) => atS),
    range,
    curves: [
      { name: "acknowledged", values: acks.map(({ fromBytes }) => fromBytes / 1e3), colour: 3 },
      { name: "window", values: acks.map(({ toBytes }) => (toBytes / 1e3 > top * 1.5 ? null : toBytes / 1e3)), colour: 1 },
    ],
    bottom,
    top: top + 0.05 * (top - bottom),
    height: 300,
    isSharp: true,
    more: (plot) => drawSegments(plot, events),
  };
  draw(place, chart, zoom);
}

function drawSegments(plot: uPlot, events: SegmentEvent[]): void {
  const { ctx, bbox } = plot, { colours, ink } = inkOf(), scale = devicePixelRatio;
  const looks: Record<string, [string, number]> = {
    data: [colours.curves[0]!, 2],
    fin: [colours.curves[0]!, 2],
    retransmission: [colours.curves[2]!, 3],
    sack: [colours.curves[4]!, 2],
    drop: [colours.drop, 2],
    timeout: [ink, 2],
  };
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const [kind, [colour, width]] of Object.entries(looks)) {
    ctx.beginPath();
    ctx.strokeStyle = colour;
    ctx.lineWidth = width * scale;
    for (const event of events) {
      if (event.kind !== kind) {
        continue;
      }
      const x = plot.valToPos(event.atS, "x", true);
      const y = plot.valToPos(event.fromBytes / 1e3, "y", true), to = plot.valToPos(event.toBytes / 1e3, "y", true);
      if (kind === "drop") {
        const [middle, arm] = [(y + to) / 2, 4 * scale];
        ctx.moveTo(x - arm, middle - arm);
        ctx.lineTo(x + arm, middle + arm);
        ctx.moveTo(x - arm, middle + arm);
        ctx.lineTo(x + arm, middle - arm);
      } else if (kind === "timeout") {
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
      } else {
        ctx.moveTo(x, y);
        ctx.lineTo(x, Math.min(to, y - scale));
      }
    }
    ctx.stroke();
  }
  ctx.restore();
}

const HEIGHT = 560;
const HEAD = 28;

/** Paints the packets of a ladder that are on their way in `range`, as far as they are at `nowS`. */
function paint(canvas: HTMLCanvasElement, ladder: Ladder, [from, until]: [number, number], nowS: number): void {
  const scale = devicePixelRatio, width = canvas.clientWidth || 400;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== HEIGHT * scale) {
    canvas.width = Math.round(width * scale);
    canvas.height = HEIGHT * scale;
  }
  const ctx = canvas.getContext("2d")!, { ink, soft, line, colours } = inkOf();
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  ctx.clearRect(0, 0, width, HEIGHT);
  const margin = 110, step = (width - 2 * margin) / Math.max(1, ladder.lanes.length - 1);
  const x = (lane: number): number => margin + lane * step;
  const y = (atS: number): number => HEAD + 8 + ((atS - from) / (until - from || 1)) * (HEIGHT - HEAD - 16);
  ctx.font = "12px Inter, Arial, sans-serif";
  ctx.textAlign = "center";
  ladder.lanes.forEach((name, lane) => {
    ctx.fillStyle = ink;
    ctx.fillText(name, x(lane), 16, step - 4);
    stroke(ctx, line, 1, () => {
      ctx.moveTo(x(lane), HEAD);
      ctx.lineTo(x(lane), HEIGHT);
    });
  });
  const seen = ladder.journeys.filter(({ corners }) => corners[0]!.atS <= Math.min(nowS, until) && corners.at(-1)!.atS >= from);
  const looks = new Map<string, Journey[]>();
  for (const journey of seen) {
    const look = journey.isDown ? (journey.kind === "retransmission" ? "again" : journey.priority) : "up";
    const alike = looks.get(look);
    if (alike === undefined) {
      looks.set(look, [journey]);
    } else {
      alike.push(journey);
    }
  }
  const [low, medium, high] = colours.priorities as [string, string, string];
  const strokes: [string, string, number][] = [["up", colours.ack, 1], ["low", low, 1.5], ["medium", medium, 1.5], ["high", high, 2], ["again", colours.curves[2]!, 2]];
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, HEAD - 4, width, HEIGHT);
  ctx.clip();
  for (const [look, colour, thick] of strokes) {
    stroke(ctx, colour, thick, () => {
      for (const { corners } of looks.get(look) ?? []) {
        trace(ctx, corners, nowS, x, y);
      }
    });
    ctx.fillStyle = colour;
    for (const journey of looks.get(look) ?? []) {
      head(ctx, journey, nowS, x, y);
    }
  }
  stroke(ctx, colours.drop, 2, () => {
    for (const { corners, isDropped } of seen) {
      const { atS, lane } = corners.at(-1)!;
      if (isDropped && atS <= nowS) {
        cross(ctx, x(lane), y(atS));
      }
    }
  });
  ctx.fillStyle = soft;
  const free = [HEAD, HEAD];
  for (const { name, corners, isDown } of seen) {
    const at = y(corners[0]!.atS) + 4, side = isDown ? 0 : 1;
    // A name that would cover another is left out.
    if (at >= free[side]!) {
      ctx.textAlign = isDown ? "right" : "left";
      ctx.fillText(name, isDown ? x(0) - 6 : x(ladder.lanes.length - 1) + 6, at, margin - 8);
      free[side] = at + 13;
    }
  }
  stroke(ctx, soft, 1, () => {
    ctx.moveTo(0, y(nowS));
    ctx.lineTo(width, y(nowS));
  });
  ctx.restore();
}

function stroke(ctx: CanvasRenderingContext2D, colour: string, width: number, path: () => void): void {
  ctx.beginPath();
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  path();
  ctx.stroke();
}

type Scale = (value: number) => number;

/** Traces the way of a packet up to where it is at `nowS`. */
function trace(ctx: CanvasRenderingContext2D, corners: Journey["corners"], nowS: number, x: Scale, y: Scale): void {
  ctx.moveTo(x(corners[0]!.lane), y(corners[0]!.atS));
  for (let at = 1; at < corners.length; at += 1) {
    const before = corners[at - 1]!, next = corners[at]!;
    if (next.atS <= nowS) {
      ctx.lineTo(x(next.lane), y(next.atS));
      continue;
    }
    const lane = between(before, next, nowS);
    ctx.lineTo(x(lane), y(nowS));
    return;
  }
}

/** Draws the packet where it is at `nowS`, with a shape by priority; where it started if it has arrived. */
function head(ctx: CanvasRenderingContext2D, { corners, isDown, priority, kind }: Journey, nowS: number, x: Scale, y: Scale): void {
  let [lane, atS] = [corners[0]!.lane, corners[0]!.atS];
  for (let at = 1; at < corners.length; at += 1) {
    const before = corners[at - 1]!, next = corners[at]!;
    if (before.atS <= nowS && next.atS > nowS) {
      [lane, atS] = [between(before, next, nowS), nowS];
    }
  }
  const [px, py] = [x(lane), y(atS)], size = isDown ? 3.5 : 2;
  ctx.beginPath();
  if (isDown && priority === "high") {
    ctx.rect(px - size, py - size, 2 * size, 2 * size);
  } else if (isDown && (priority === "medium" || kind === "retransmission")) {
    ctx.moveTo(px, py - size);
    ctx.lineTo(px + size, py + size);
    ctx.lineTo(px - size, py + size);
  } else {
    ctx.arc(px, py, size, 0, 2 * Math.PI);
  }
  ctx.fill();
}

function between(before: { atS: number; lane: number }, next: { atS: number; lane: number }, nowS: number): number {
  const share = (nowS - before.atS) / (next.atS - before.atS || 1);
  return before.lane + share * (next.lane - before.lane);
}

function cross(ctx: CanvasRenderingContext2D, x: number, y: number): void {
  ctx.moveTo(x - 5, y - 5);
  ctx.lineTo(x + 5, y + 5);
  ctx.moveTo(x - 5, y + 5);
  ctx.lineTo(x + 5, y - 5);
}
