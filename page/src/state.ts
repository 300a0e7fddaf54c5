// State of the page in the fragment of its address, so that a link restores it: JSON, deflated, in base64url.

import { decoded, encoded, through } from "./stored";

const VERSION = 2;

/** Files of a scenario that the page does not have, by path relative to the scenario; in base64. */
export interface Given {
  path: string;
  text: string;
  files: Record<string, string>;
}

/** One of the two runs that are compared: a variant, and keys with values that differ from those of the scenario. */
export interface Side {
  variant: string;
  set: Record<string, string>;
}

export const VIEWS = ["time", "times", "packets", "page", "models"] as const;
export type View = (typeof VIEWS)[number];

export interface State {
  /** Name of a scenario of the page, or a scenario that it does not have. */
  scenario: string | Given;
  sides: [Side, Side];
  seed: number;
  /** Time that is drawn; null for the usual one. */
  rangeS: [number, number] | null;
  view: View;
  /** Connection whose packets are drawn; null for the one that sends most. */
  connection: number | null;
  /** Step of the tour, from 0; null outside of it. */
  step: number | null;
}

export function stateFor(scenario: string | Given, more: Partial<State> = {}): State {
  const side = (): Side => ({ variant: "", set: {} });
  return { scenario, sides: [side(), side()], seed: 1, rangeS: null, view: "time", connection: null, step: null, ...more };
}

/** Returns the fragment of a state. */
export async function fragmentOf(state: State): Promise<string> {
  const text = new TextEncoder().encode(JSON.stringify({ v: VERSION, ...state }));
  const bytes = new Uint8Array(await through(text, new CompressionStream("deflate-raw")));
  return encoded(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns the state of a fragment, or why there is none. */
export async function stateOf(fragment: string): Promise<State | string> {
  let found: unknown;
  try {
    const bytes = decoded(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const text = await through(bytes, new DecompressionStream("deflate-raw"));
    found = JSON.parse(new TextDecoder().decode(text));
  } catch {
    return "the link is damaged";
  }
  if (typeof found !== "object" || found === null) {
    return "the link is damaged";
  }
  const { v, ...given } = found as Partial<State> & { v?: unknown };
  if (v !== VERSION) {
    return `the link is of another version of this page, ${String(v)} instead of ${VERSION}`;
  }
  const state = { ...stateFor(""), ...given };
  return isState(state) ? state : "the link is damaged";
}

function isState(state: State): boolean {
  const { scenario, sides, seed, rangeS, view, connection, step } = state;
  const isTexts = (of: unknown): boolean =>
    typeof of === "object" && of !== null && Object.values(of).every((one) => typeof one === "string");
  const isGiven = (of: unknown): boolean => {
    const given = of as Given | null;
    return typeof given === "object" && given !== null && typeof given.path === "string" && typeof given.text === "string" && isTexts(given.files);
  };
  const isSide = (side: Side): boolean => typeof side?.variant === "string" && isTexts(side.set);
  const isNumber = (of: number | null): boolean => of === null || (Number.isSafeInteger(of) && of >= 0);
  return (
    (typeof scenario === "string" || isGiven(scenario)) &&
    Array.isArray(sides) && sides.length === 2 && sides.every(isSide) &&
    Number.isSafeInteger(seed) && seed >= 0 &&
    (rangeS === null || (Array.isArray(rangeS) && rangeS.length === 2 && rangeS.every(Number.isFinite))) &&
    VIEWS.includes(view) && isNumber(connection) && isNumber(step)
  );
}
