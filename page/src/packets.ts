// Packets of one connection as the engine answers them: segments at the server, and steps of each packet through the network.

import type { Reply } from "./message";

/** Event at the server of a connection. */
export interface SegmentEvent {
  atS: number;
  kind: "data" | "retransmission" | "fin" | "ack" | "sack" | "drop" | "timeout";
  fromBytes: number;
  toBytes: number;
}

/** Way of a packet through the lanes, which are nodes from the server to the client. */
export interface Journey {
  /** What the packet is: its bytes, or its kind. */
  name: string;
  kind: "syn" | "data" | "retransmission" | "ack";
  priority: "low" | "medium" | "high";
  /** True if the server has sent it. */
  isDown: boolean;
  /** Times and lanes of its corners: waits in a lane, and crosses to the next. */
  corners: { atS: number; lane: number }[];
  isDropped: boolean;
}

export interface Ladder {
  lanes: string[];
  journeys: Journey[];
  /** Times of all steps, in order, and what happens. */
  steps: { atS: number; text: string }[];
}

interface Columns {
  of(name: string): ArrayLike<number>;
  words(name: string): string[];
}

export function segmentsOf(reply: Reply): SegmentEvent[] {
  const { of, words } = columns(reply);
  const kinds = words("segments.kind") as SegmentEvent["kind"][];
  return kinds.map((kind, row) => ({
    atS: of("segments.at_s")[row]!,
    kind,
    fromBytes: of("segments.from_bytes")[row]!,
    toBytes: of("segments.to_bytes")[row]!,
  }));
}

interface Step {
  atS: number;
  kind: string;
  node: number;
}

export function ladderOf(reply: Reply): Ladder {
  const { of, words } = columns(reply);
  const nodes = reply.head["nodes"] as string[];
  const ends = words("packets.end"), kinds = words("packets.kind"), priorities = words("packets.priority");
  const steps: Step[][] = ends.map(() => []);
  words("steps.kind").forEach((kind, row) => {
    steps[of("steps.packet")[row]!]!.push({ atS: of("steps.at_s")[row]!, kind, node: of("steps.node")[row]! });
  });
  const arrival = (end: string): Step[] => {
    const whole = steps.filter((one, packet) => ends[packet] === end && one.at(-1)?.kind === "delivered" && one[0]!.kind === "enters");
    return whole[0] ?? [];
  };
  const down = arrival("server").filter(({ kind }) => kind === "passes").map(({ node }) => node);
  const up = arrival("client").filter(({ kind }) => kind === "passes").map(({ node }) => node);
  const server = up.at(-1) ?? -1;
  const order = [server, ...(down.length > 0 ? down : up.slice(0, -1).reverse())];
  const laneOf = new Map(order.map((node, lane) => [node, lane]));
  const lanes = order.map((node) => (node === -1 ? "server" : nodes[node]!));
  const least = leastTransits(steps, ends, of("packets.wire_bytes"), laneOf, lanes.length);
  const journeys: Journey[] = [], all: Ladder["steps"] = [];
  steps.forEach((taken, packet) => {
    if (taken.length === 0) {
      return;
    }
    const isDown = ends[packet] === "server";
    const from = of("packets.from_bytes")[packet]!, to = of("packets.to_bytes")[packet]!;
    const kind = kinds[packet] as Journey["kind"], priority = priorities[packet] as Journey["priority"];
    const name = to > from && kind !== "syn" ? `${from}–${to - 1}` : kind === "syn" ? (isDown ? "SYN-ACK" : "SYN") : "ACK";
    const told = `${kind === "data" || kind === "retransmission" ? `${kind} ` : ""}${name}${isDown && to > from ? `, ${priority.toUpperCase()},` : ""}`;
    const journey: Journey = { name, kind, priority, isDown, corners: [], isDropped: false };
    let lane = isDown ? 0 : lanes.length - 1, entered: number | null = null;
    for (const { atS, kind: step, node } of taken) {
      const next = laneOf.get(node);
      if (next === undefined) {
        continue;
      }
      if (step === "enters") {
        journey.corners.push({ atS, lane });
        entered = atS;
      } else if (step === "passes") {
        const transit = least.get(`${lane} ${next} ${of("packets.wire_bytes")[packet]}`) ?? 0;
        if (entered !== null && atS - transit > entered) {
          journey.corners.push({ atS: atS - transit, lane });
        }
        journey.corners.push({ atS, lane: next });
        [lane, entered] = [next, null];
      } else if (step === "dropped") {
        const transit = least.get(`${lane} ${next} ${of("packets.wire_bytes")[packet]}`) ?? Infinity;
        const isOnTheWire = entered !== null && atS - entered >= transit / 2;
        journey.corners.push({ atS, lane: isOnTheWire ? next : lane });
        journey.isDropped = true;
      }
      all.push({ atS, text: `${told} ${SAID[step] ?? step} ${step === "enters" ? lanes[lane]! : lanes[step === "dropped" ? lane : next]!}` });
    }
    if (journey.corners.length > 0) {
      journeys.push(journey);
    }
  });
  all.sort((a, b) => a.atS - b.atS);
  return { lanes, journeys, steps: all };
}

/** One-way delays of the packets that the server has sent and the client received, in the order of their arrival. */
export interface Delays {
  atS: number[];
  delayMs: number[];
  /** Jitter of RFC 3550, section 6.4.1, after the last packet. */
  jitterMs: number;
}

export function delaysOf({ journeys, lanes }: Ladder): Delays {
  const arrived = journeys.filter(({ isDown, isDropped, corners }) => isDown && !isDropped && corners[0]!.lane === 0 && corners.at(-1)!.lane === lanes.length - 1);
  const ends = arrived.map(({ corners }) => ({ atS: corners.at(-1)!.atS, delayMs: 1e3 * (corners.at(-1)!.atS - corners[0]!.atS) }));
  ends.sort((a, b) => a.atS - b.atS);
  let jitterMs = 0;
  ends.forEach(({ delayMs }, at) => {
    if (at > 0) {
      jitterMs += (Math.abs(delayMs - ends[at - 1]!.delayMs) - jitterMs) / 16;
    }
  });
  return { atS: ends.map(({ atS }) => atS), delayMs: ends.map(({ delayMs }) => delayMs), jitterMs };
}

const SAID: Record<string, string> = {
  enters: "comes to the queue of",
  passes: "arrives at",
  dropped: "is dropped at",
  delivered: "is received by",
};

/** Returns the shortest time that a packet of a size has taken from a lane to the next, queue included: what is beyond it was waiting. */
function leastTransits(
  steps: Step[][],
  ends: string[],
  sizes: ArrayLike<number>,
  laneOf: Map<number, number>,
  lanes: number,
): Map<string, number> {
  const least = new Map<string, number>();
  steps.forEach((taken, packet) => {
    let lane = ends[packet] === "server" ? 0 : lanes - 1, entered: number | null = null;
    for (const { atS, kind, node } of taken) {
      const next = laneOf.get(node);
      if (kind === "enters") {
        entered = atS;
      } else if (kind === "passes" && next !== undefined) {
        if (entered !== null) {
          const key = `${lane} ${next} ${sizes[packet]}`;
          least.set(key, Math.min(least.get(key) ?? Infinity, atS - entered));
        }
        [lane, entered] = [next, null];
      }
    }
  });
  return least;
}

function columns({ head, arrays }: Reply): Columns {
  const texts = head["texts"] as Record<string, string[]>;
  const of = (name: string): ArrayLike<number> => arrays[name]!;
  return { of, words: (name) => Array.from(of(name), (code) => texts[name]![code]!) };
}
