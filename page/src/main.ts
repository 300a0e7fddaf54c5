// The page: a scenario, two variants one above the other, and what happens in one run of each over time.

import { Client } from "./client";
import type { Reply } from "./message";
import { draw, type Chart } from "./charts";
import { module, scenarios } from "./library";
import { fragmentOf, stateOf, type State } from "./state";
import type { Bundled } from "./stored";
import { timelineOf, type Timeline } from "./timeline";

const SAMPLES = 1000;
const USUAL = "two-flows";

const element = <Type extends HTMLElement>(id: string): Type => document.getElementById(id) as Type;
const choice = (id: string): HTMLSelectElement => element<HTMLSelectElement>(id);

class Page {
  readonly #clients: [Client, Client];
  readonly #library: Bundled[];
  #state: State;
  /** Number of the latest change; answers to earlier ones are dropped. */
  #change = 0;

  constructor(clients: [Client, Client], library: Bundled[]) {
    this.#clients = clients;
    this.#library = library;
    const found = library.find((one) => one.name === USUAL) ?? library[0]!;
    this.#state = { scenario: found.name, variants: ["", ""], seed: 1, rangeS: null };
    options("scenario", library.map((one) => [one.name, `${one.title} (${one.name})`]));
    choice("scenario").addEventListener("change", () => {
      void this.show({ scenario: choice("scenario").value, variants: ["", ""], seed: this.#state.seed, rangeS: null });
    });
    for (const [id, at] of [["first", 0], ["second", 1]] as const) {
      choice(id).addEventListener("change", () => {
        const variants: [string, string] = [...this.#state.variants];
        variants[at] = choice(id).value;
        void this.show({ ...this.#state, variants, rangeS: null });
      });
    }
    element<HTMLInputElement>("seed").addEventListener("change", () => {
      const seed = Math.max(0, Math.floor(Number(element<HTMLInputElement>("seed").value) || 0));
      void this.show({ ...this.#state, seed });
    });
    element("whole").addEventListener("click", () => void this.show({ ...this.#state, rangeS: null }));
    addEventListener("hashchange", () => void this.restore());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.show(this.#state));
    let resized: ReturnType<typeof setTimeout> | undefined;
    addEventListener("resize", () => {
      clearTimeout(resized);
      resized = setTimeout(() => void this.show(this.#state), 200);
    });
  }

  /** Shows what the address of the page says, or the usual scenario. */
  async restore(): Promise<void> {
    const fragment = location.hash.slice(1);
    const state = fragment === "" ? this.#state : stateOf(fragment);
    if (typeof state === "string") {
      tell(state);
      await this.show(this.#state, false);
      return;
    }
    await this.show(state);
  }

  /** Runs both variants of a state and draws them. */
  async show(state: State, isTold = true): Promise<void> {
    this.#change += 1;
    const change = this.#change;
    const found = this.#library.find((one) => one.name === state.scenario);
    if (found === undefined) {
      tell(`there is no scenario ${state.scenario}`);
      return;
    }
    element("drawings").setAttribute("aria-busy", "true");
    try {
      const outlines = await Promise.all(
        this.#clients.map((client) => client.open(found.path, found.text, found.files, [])),
      );
      if (change !== this.#change) {
        return;
      }
      const names = outlines[0]!.variants;
      if (names.length === 0) {
        throw new Error(`${found.title}: its hosts are real, so that a page cannot run it`);
      }
      const [first = names[0]!, second = names[1] ?? names[0]!] = state.variants.map((one) =>
        names.includes(one) ? one : undefined,
      );
      this.#state = { ...state, variants: [first, second] };
      const began = performance.now();
      const question = (variant: string, rangeS: [number, number] | null): object => ({
        ask: "timeline",
        variant,
        seed: state.seed,
        samples: SAMPLES,
        range_s: rangeS,
        connections: null,
        followed: null,
      });
      // Both have one time axis: that of the first.
      const [one, other] = this.#clients;
      const top = timelineOf(await one.ask(question(first, state.rangeS) as Record<string, unknown>));
      const below: Reply = await other.ask(question(second, top.rangeS) as Record<string, unknown>);
      if (change !== this.#change) {
        return;
      }
      this.#drawAll([
        [first, top],
        [second, timelineOf(below)],
      ]);
      this.#controls(found, names);
      history.replaceState(null, "", `#${fragmentOf(this.#state)}`);
      document.body.dataset["drawnMs"] = (performance.now() - began).toFixed(1);
      if (isTold) {
        tell("");
      }
    } catch (failure) {
      if (change === this.#change) {
        tell(failure instanceof Error ? failure.message : String(failure));
      }
    } finally {
      element("drawings").setAttribute("aria-busy", "false");
    }
  }

  #controls(found: Bundled, names: string[]): void {
    options("first", names.map((name) => [name, name]));
    options("second", names.map((name) => [name, name]));
    choice("scenario").value = found.name;
    choice("first").value = this.#state.variants[0];
    choice("second").value = this.#state.variants[1];
    element<HTMLInputElement>("seed").value = String(this.#state.seed);
    element("title").textContent = found.title;
    document.title = `${found.title}: CATNIP`;
  }

  #drawAll(drawn: [string, Timeline][]): void {
    const zoom = (rangeS: [number, number]): void => void this.show({ ...this.#state, rangeS });
    const columns: ((of: Timeline) => Omit<Chart, "title" | "atS" | "rangeS" | "top"> & { what: string })[] = [
      (of) => ({ what: "cwnd", unit: "kB", curves: of.cwndKB }),
      (of) => ({ what: `queue of ${of.link}`, unit: "packets", curves: of.queue, isStacked: true, dropsS: of.dropsS }),
      (of) => ({ what: "smoothed round trip", unit: "ms", curves: of.srttMs }),
      (of) => ({ what: "time in queue and transmission", unit: "ms", curves: of.delayMs }),
    ];
    const pairs = [...element("drawings").children] as HTMLElement[];
    columns.forEach((column, at) => {
      const charts = drawn.map(([variant, of]) => {
        const { what, ...chart } = column(of);
        return { ...chart, title: `${variant}: ${what}`, atS: of.atS, rangeS: of.rangeS };
      });
      // Both have one scale, so that their heights can be compared.
      const values = charts.flatMap((chart) => chart.curves.flatMap((curve) => curve.values));
      const top = values.reduce<number>((most, value) => Math.max(most, value ?? 0), 0);
      charts.forEach((chart, row) => {
        const place = pairs[at]!.children[row] as HTMLElement;
        const [from, until] = chart.rangeS;
        place.setAttribute("aria-label", `${chart.title}, from ${from.toFixed(2)} to ${until.toFixed(2)} s`);
        draw(place, { ...chart, top }, zoom);
      });
    });
  }
}

function options(id: string, entries: [string, string][]): void {
  const made = entries.map(([value, label]) => {
    const one = document.createElement("option");
    one.value = value;
    one.textContent = label;
    return one;
  });
  choice(id).replaceChildren(...made);
}

function tell(text: string): void {
  element("told").textContent = text;
}

async function main(): Promise<void> {
  try {
    const [compiled, library] = await Promise.all([module(), scenarios()]);
    const script = document.getElementById("worker")!.textContent!;
    const page = new Page([new Client(script, compiled), new Client(script, compiled)], library);
    await page.restore();
  } catch (failure) {
    tell(`The page cannot start: ${failure instanceof Error ? failure.message : String(failure)}`);
  }
}

void main();
