// Guided tour of six steps: why a lost packet may cost a second or nothing, and what a queue that knows makes of it.

import { stateFor, type Side, type State } from "./state";

export interface Step {
  title: string;
  text: string;
  state: Partial<State> & { scenario: string };
}

const LOST = "lost-packet";
const side = (variant: string): Side => ({ variant, set: {} });

export const TOUR: Step[] = [
  {
    title: "A short transfer",
    text: "A server sends twelve segments, as small pages have. Slow start sends two, then four, then more: four round trips, and all is there. Above and below are the same run; the ladder shows each packet on its way through the router. Press Play, or step with the arrow keys.",
    state: { scenario: LOST, sides: [side("none"), side("none")], view: "packets" },
  },
  {
    title: "A lost first packet",
    text: "Below, the first segment is lost. Only one more is on its way, too few for three duplicate ACKs: the server waits until its retransmission timer expires, and begins anew with a window of one segment.",
    state: { scenario: LOST, sides: [side("none"), side("first")], view: "packets" },
  },
  {
    title: "A lost last packet",
    text: "Below, the last segment is lost. Behind it comes nothing that the client could acknowledge, so that the server learns of the loss by its timer only. The reader waits for a page of which everything but the end is there.",
    state: { scenario: LOST, sides: [side("none"), side("last")], view: "packets" },
  },
  {
    title: "A lost packet in the middle",
    text: "Below, a segment in the middle is lost. Segments behind it cause duplicate ACKs, the third of which repairs the loss within a round trip. Almost nothing is lost but a packet. A router cannot tell it from the others; a server that knows the size of its document can.",
    state: { scenario: LOST, sides: [side("none"), side("middle")], view: "packets" },
  },
  {
    title: "A queue that knows",
    text: "A hundred readers share a line of 1.5 Mbit/s. The servers mark the first and last packets of each document HIGH. Above, a queue drops what comes when it is full. Below, the same queue drops LOW packets first. Strokes at the upper edge are drops.",
    state: { scenario: "catnip-e4", sides: [side("Reno/DropTail"), side("Reno/CATNIP-Good")], view: "time" },
  },
  {
    title: "What readers see",
    text: "The share of pages that take longer than a time, over all seeds. The queue is as long as before and drops as many packets, but the slow pages are faster: they no longer wait for timers. Move a slider and see when that ends, for instance with the rate of the bottleneck.",
    state: { scenario: "catnip-e4", sides: [side("Reno/DropTail"), side("Reno/CATNIP-Good")], view: "times" },
  },
];

/** Returns the state of a step of the tour, from 0. */
export function stateAt(step: number): State {
  const { scenario, ...more } = TOUR[step]!.state;
  return stateFor(scenario, { ...more, step });
}
