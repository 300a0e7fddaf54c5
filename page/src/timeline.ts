// Timeline of a run as the engine answers it, as columns over one grid of times.

import type { Reply } from "./message";

/** Curve over the times of a timeline; null where it has no value. */
export interface Curve {
  name: string;
  values: (number | null)[];
  /** Values to tell, if they are not those that are drawn. */
  told?: (number | null)[];
  /** Number of its colour, if it is not that of its place. */
  colour?: number;
  isDashed?: boolean;
  /** True for the edge of a band, which has no line. */
  isEdge?: boolean;
}

export interface Timeline {
  rangeS: [number, number];
  atS: number[];
  /** Connections that are sampled: their numbers, and their names. */
  connections: { number: number; name: string }[];
  cwndKB: Curve[];
  inFlightKB: Curve[];
  srttMs: Curve[];
  goodputMbps: Curve[];
  /** Packets in the first link's queue and in transmission by priority, each with those below it. */
  queue: Curve[];
  delayMs: Curve[];
  rateMbps: Curve[];
  /** Times of drops and of CE marks at the first link, and of timeouts. */
  dropsS: number[];
  marksS: number[];
  timeoutsS: number[];
  link: string;
}

export function timelineOf({ head, arrays }: Reply): Timeline {
  const texts = head["texts"] as Record<string, string[]>;
  const column = (name: string): ArrayLike<number> => arrays[name]!;
  const words = (name: string): string[] => Array.from(column(name), (code) => texts[name]![code]!);
  const rangeS = head["range_s"] as [number, number];
  const links = words("links.name");
  const ofLink = column("link_samples.link");
  const count = links.length === 0 ? 0 : ofLink.length / links.length;
  const atS = Array.from({ length: count }, (_, at) => column("link_samples.at_s")[at]!);
  const ofLinks = (name: string, scale: number): Curve[] =>
    links.map((link, row) => ({
      name: link,
      values: atS.map((_, at) => known(column(`link_samples.${name}`)[row * count + at]! * scale)),
    }));
  const groups = words("connections.group");
  const numbers = column("connections.connection");
  const names = groups.map((group, row) => `${group}, connection ${numbers[row]}`);
  const place = new Map(atS.map((at, index) => [at, index]));
  const ofSenders = (name: string, scale: number): Curve[] => {
    const curves = names.map((of): Curve => ({ name: of, values: atS.map(() => null) }));
    const rows = column("sender_samples.connection");
    for (let sample = 0; sample < rows.length; sample += 1) {
      const at = place.get(column("sender_samples.at_s")[sample]!);
      if (at !== undefined) {
        curves[rows[sample]!]!.values[at] = known(column(`sender_samples.${name}`)[sample]! * scale);
      }
    }
    return curves;
  };
  const kinds = words("ticks.kind");
  const timesOf = (kind: string, isAtFirstLink: boolean): number[] =>
    kinds.flatMap((one, row) =>
      one === kind && (!isAtFirstLink || column("ticks.link")[row] === 0) ? [column("ticks.at_s")[row]!] : [],
    );
  return {
    rangeS,
    atS,
    connections: names.map((name, row) => ({ number: numbers[row]!, name })),
    cwndKB: ofSenders("cwnd_bytes", 1e-3),
    inFlightKB: ofSenders("in_flight_bytes", 1e-3),
    srttMs: ofSenders("srtt_s", 1e3),
    goodputMbps: ofSenders("goodput_mbps", 1),
    queue: stacked(["low", "med", "high"].map((one) => ofLinks(`${one}_packets`, 1)[0]!).filter(Boolean)),
    delayMs: ofLinks("delay_s", 1e3),
    rateMbps: ofLinks("rate_mbps", 1),
    dropsS: timesOf("drop", true),
    marksS: timesOf("mark", true),
    timeoutsS: timesOf("timeout", false),
    link: links[0] ?? "",
  };
}

function stacked(curves: Curve[]): Curve[] {
  const names = ["LOW", "MED", "HIGH"];
  const sums: number[] = [];
  return curves.map(({ values }, row) => ({
    name: names[row]!,
    values: values.map((value, at) => (sums[at] = (sums[at] ?? 0) + (value ?? 0))),
    told: values,
  }));
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
