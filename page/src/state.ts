// State of the page in the fragment of its address, so that a link restores it.

const VERSION = 1;

export interface State {
  scenario: string;
  /** Variants that are drawn one above the other. */
  variants: [string, string];
  seed: number;
  /** Time that is drawn; null for the usual one. */
  rangeS: [number, number] | null;
}

/** Returns the fragment of a state. */
export function fragmentOf(state: State): string {
  const text = JSON.stringify({ v: VERSION, ...state });
  const bytes = new TextEncoder().encode(text);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Returns the state of a fragment, or why there is none. */
export function stateOf(fragment: string): State | string {
  let found: unknown;
  try {
    const bytes = Uint8Array.from(atob(fragment.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
    found = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return "the link is damaged";
  }
  const state = found as Partial<State> & { v?: unknown };
  if (typeof found !== "object" || found === null || state.v !== VERSION) {
    return `the link is of another version of this page, ${String(state?.v)} instead of ${VERSION}`;
  }
  const { scenario, variants, seed, rangeS = null } = state;
  const isRange = rangeS === null || (Array.isArray(rangeS) && rangeS.length === 2 && rangeS.every(Number.isFinite));
  const isPair = Array.isArray(variants) && variants.length === 2 && variants.every((one) => typeof one === "string");
  if (typeof scenario !== "string" || !isPair || !Number.isSafeInteger(seed) || !isRange) {
    return "the link is damaged";
  }
  return { scenario, variants, seed: seed!, rangeS };
}
