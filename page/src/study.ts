// Runs of both sides with one seed after the other, and the difference between them, whose interval becomes narrower.

import { Dropped, type Client } from "./client";
import type { Reply } from "./message";

/** Mean with its interval, and the number of values; a bound is null with a single seed. */
export type Mean = [number, number | null, number | null, number];

export interface Group {
  name: string;
  kind: string;
  started: number;
  finished: number;
  means: Record<string, Mean>;
  values: Record<string, (number | null)[]>;
  /** Share of transfers that take longer than each time, and its band. */
  curve: { timesS: Float64Array; above: Float64Array; low: Float64Array; high: Float64Array };
}

export interface Summary {
  seeds: number;
  groups: Group[];
  links: { name: string; means: Record<string, Mean> }[];
}

/** Change of a measure from one run to the other, as shares. */
export interface Effect {
  group: string;
  measure: string;
  change: Mean;
}

/** Result so far. */
export interface Progress {
  summaries: [Summary, Summary];
  effects: Effect[];
  isOver: boolean;
}

/** Measures by which variants are compared, the one that is told first; as in the headlines of reports (report/effects.py). */
const SOONER = ["p95_s", "page_time_s", "echo_s", "segment_s", "completed_s"];
const GOODPUT = "goodput_mbps";
export const LABELS: Record<string, string> = {
  p95_s: "95th percentile, s",
  p99_s: "99th percentile, s",
  median_s: "median, s",
  page_time_s: "page time, s",
  echo_s: "echo, s",
  segment_s: "segment, s",
  completed_s: "completion time, s",
  goodput_mbps: "goodput, Mbit/s",
  busy_goodput_mbps: "goodput while busy, Mbit/s",
  rtt_mean_ms: "round trip, ms",
  retransmitted_pct: "retransmitted, %",
  timeouts: "timeouts",
  fairness: "Jain's index",
};
/** Half of the interval at which a difference is known well enough, as a share, and the least number of seeds for it. */
const NARROW = 0.02;
const FEWEST = 10;
/** Time that a batch of seeds shall take, ms. */
const BATCH_MS = 80;

/** Runs up to `most` seeds of two variants and tells the result after each batch, until `isWanted` says no more. */
export async function study(
  clients: [Client, Client],
  variants: [string, string],
  most: number,
  isWanted: () => boolean,
  told: (progress: Progress) => void,
): Promise<void> {
  let seeds = 2, batch = 1;
  try {
    for (;;) {
      const began = performance.now();
      const ask = (at: 0 | 1, until: number): Promise<Summary> =>
        clients[at].ask({ ask: "study", variant: variants[at], seeds: until }).then(summaryOf);
      let summaries = await Promise.all([ask(0, seeds), ask(1, seeds)]);
      // One may have had more before.
      seeds = Math.max(summaries[0].seeds, summaries[1].seeds);
      if (summaries[0].seeds !== summaries[1].seeds) {
        summaries = await Promise.all([ask(0, seeds), ask(1, seeds)]);
      }
      const effects = await effectsOf(clients[0], summaries);
      if (!isWanted()) {
        return;
      }
      const isNarrow = seeds >= FEWEST && effects.length > 0 && effects.every(({ change: [, low, high] }) => high! - low! < 2 * NARROW);
      const isOver = seeds >= most || isNarrow;
      told({ summaries, effects, isOver });
      if (isOver) {
        return;
      }
      const perSeedMs = (performance.now() - began) / batch;
      batch = Math.min(10, Math.max(1, Math.floor(BATCH_MS / perSeedMs)));
      seeds = Math.min(most, seeds + batch);
      await new Promise((resolve) => setTimeout(resolve));
    }
  } catch (failure) {
    if (!(failure instanceof Dropped)) {
      throw failure;
    }
  }
}

function summaryOf({ head, arrays }: Reply): Summary {
  const summary = head as unknown as Summary;
  summary.groups.forEach((group, number) => {
    const of = (name: string): Float64Array => arrays[`${number}.${name}`] as Float64Array;
    group.curve = { timesS: of("times"), above: of("above"), low: of("low"), high: of("high") };
  });
  return summary;
}

async function effectsOf(client: Client, [base, ours]: [Summary, Summary]): Promise<Effect[]> {
  const effects: Effect[] = [];
  for (const group of ours.groups) {
    const other = base.groups.find(({ name }) => name === group.name);
    for (const measure of other === undefined || isAlike(group) || isAlike(other) ? [] : [...SOONER, GOODPUT]) {
      const values = [group.values[measure], other!.values[measure]];
      if (values[0] === undefined || values[1] === undefined) {
        continue;
      }
      const { head } = await client.ask({ ask: "change", ours: values[0], base: values[1] });
      if (head["change"] !== null) {
        effects.push({ group: group.name, measure, change: head["change"] as Mean });
        break;
      }
    }
  }
  return effects;
}

/** Returns true if all transfers take the same time to a tenth of a percent: such runs are one, whatever their number. */
function isAlike({ curve: { timesS }, started, finished }: Group): boolean {
  return finished > 1 && finished === started && timesS.length > 0 && timesS.at(-1)! <= 1.001 * timesS[0]!;
}

/** Returns an effect in words, such as `A: 30 % [26, 34] faster than B at the 95th percentile`. */
export function sentence({ measure, change: [mean, low, high] }: Effect, [base, ours]: [string, string]): string {
  const whole = (share: number): string => (Math.abs(share) >= 0.1 ? (100 * share).toFixed(0) : (100 * share).toFixed(1));
  const where = measure === "p95_s" ? " at the 95th percentile" : measure === GOODPUT ? "" : ` by mean ${LABELS[measure]!.replace(/, s$/, "")}`;
  if (low! <= 0 && high! >= 0) {
    const of = measure === GOODPUT ? "goodput" : where.replace(/^ (by|at the) /, "");
    return `${ours}: no difference to ${base} that these runs see: ${of} ${whole(mean)} % [${whole(low!)}, ${whole(high!)}]`;
  }
  const [least, most] = [Math.abs(low!), Math.abs(high!)].sort((a, b) => a - b) as [number, number];
  const amount = `${whole(Math.abs(mean))} % [${whole(least)}, ${whole(most)}]`;
  if (measure === GOODPUT) {
    return `${ours}: ${amount} ${mean > 0 ? "more" : "less"} goodput than ${base}`;
  }
  return `${ours}: ${amount} ${mean < 0 ? "faster" : "slower"} than ${base}${where}`;
}

/** Returns what runs without an interval say: the times of both, if nothing in them is random. */
export function withoutInterval(names: [string, string], summaries: [Summary, Summary]): string {
  const [base, ours] = summaries.map(({ groups }) => groups[0]);
  if (base === undefined || ours === undefined || !(isAlike(base) && isAlike(ours))) {
    return "No difference has an interval.";
  }
  const timeS = ({ curve }: Group): string => `${Number(curve.timesS[0]!.toPrecision(3))} s`;
  return `${names[1]}: ${timeS(ours)}, ${names[0]}: ${timeS(base)}. All seeds are alike: nothing in these runs is random.`;
}
