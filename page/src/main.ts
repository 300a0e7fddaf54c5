// The page: a scenario and two runs of it, with other variants or other keys, and what happens in them.

import { inkOf, say } from "./charts";
import { Client, Dropped, type Subject } from "./client";
import { Controls, tag, type Sets } from "./controls";
import { csv, log, picture, save } from "./downloads";
import type { Outline } from "./engine";
import { filesOf, givenOf } from "./given";
import { module, scenarios, schema } from "./library";
import type { Reply } from "./message";
import { Fields, type Document } from "./schema";
import { fragmentOf, stateFor, stateOf, VIEWS, type State, type View } from "./state";
import type { Bundled } from "./stored";
import { sentence, study, withoutInterval, type Progress } from "./study";
import { timelineOf } from "./timeline";
import { stateAt, TOUR } from "./tour";
import { showModels } from "./views/models";
import { Packets } from "./views/packets";
import { drawTime, timePlaces } from "./views/time";
import { drawTimes } from "./views/times";
import { drawWaterfalls } from "./views/waterfall";

const SAMPLES = 1000;
const USUAL = "catnip-e4";
/** Number of seeds that are run unasked, and time of a first picture beyond which none are, ms. */
const SEEDS = 60;
const SLOW_MS = 2000;
/** Quiet time after which seeds are run, ms. */
const QUIET_MS = 250;
/** Choice of the list of scenarios that stands for one from a file. */
const FROM_FILE = "";

const element = <Type extends HTMLElement>(id: string): Type => document.getElementById(id) as Type;
const choice = (id: string): HTMLSelectElement => element<HTMLSelectElement>(id);

class Page {
  readonly #clients: [Client, Client];
  readonly #library: Bundled[];
  readonly #controls: Controls;
  readonly #packets: Packets;
  #state: State;
  /** Number of the latest change; answers to earlier ones are dropped. */
  #change = 0;
  #axes: string[] = [];
  /** Scenario and variants of which the controls show the keys. */
  #controlled = "";
  /** Time that is drawn unless another is chosen, and what it was found for. */
  #usual: { key: string; rangeS: [number, number] } | null = null;
  #studied: { key: string; progress: Progress } | null = null;

  constructor(clients: [Client, Client], library: Bundled[], fields: Fields) {
    this.#clients = clients;
    this.#library = library;
    const found = library.find((one) => one.name === USUAL) ?? library[0]!;
    this.#state = stateFor(found.name);
    this.#controls = new Controls(element("controls"), fields, (sets) => this.#set(sets));
    element("view-time").replaceChildren(...timePlaces());
    this.#packets = new Packets(element("ladders"));
    options("scenario", library.map((one) => [one.name, `${one.title} (${one.name})`]));
    // On a narrow window they are above the pictures.
    element<HTMLDetailsElement>("parameters").open = !matchMedia("(max-width: 75rem)").matches;
    this.#listen();
  }

  /** Shows what the address of the page says, or the page itself, or the usual scenario. */
  async restore(): Promise<void> {
    const fragment = location.hash.slice(1) || document.getElementById("state")!.textContent!.trim();
    const state = fragment === "" ? this.#state : await stateOf(fragment);
    if (typeof state === "string") {
      tell(state);
      await this.show(this.#state, false);
      return;
    }
    await this.show(state);
  }

  /** Runs both sides of a state and draws the view that it chooses. */
  async show(state: State, isTold = true): Promise<void> {
    this.#change += 1;
    const change = this.#change;
    const isCurrent = (): boolean => change === this.#change;
    const began = performance.now();
    this.#clients.forEach((client) => client.drop());
    document.body.setAttribute("aria-busy", "true");
    try {
      const subjects = this.#subjects(state);
      const name = JSON.stringify(state.scenario);
      const outlines = await Promise.all(this.#clients.map((client, at) => client.open(name, subjects[at]!, state.sides[at]!.variant)));
      const chosen = withVariants(state, outlines as [Outline, Outline]);
      if (!isCurrent()) {
        return;
      }
      await this.#draw(chosen, isCurrent);
      if (!isCurrent()) {
        return;
      }
      if (this.#studiedOf(chosen) === null) {
        element("effect").replaceChildren(tag("p", { class: "hint" }, "The difference is known when more seeds have run."));
      }
      this.#state = chosen;
      this.#axes = outlines.flatMap(({ axes }) => axes);
      const drawnMs = performance.now() - began;
      document.body.dataset["drawnMs"] = drawnMs.toFixed(1);
      await this.#showControls(outlines as [Outline, Outline]);
      history.replaceState(null, "", `#${await fragmentOf(chosen)}`);
      if (isTold) {
        tell("");
      }
      if (drawnMs < SLOW_MS) {
        setTimeout(() => isCurrent() && void this.#study(isCurrent), QUIET_MS);
      } else {
        element("effect").replaceChildren(tag("p", { class: "hint" }, "These runs take long: the view Distribution has more seeds run."));
      }
    } catch (failure) {
      if (isCurrent() && !(failure instanceof Dropped)) {
        tell(failure instanceof Error ? failure.message : String(failure));
      }
    } finally {
      if (isCurrent()) {
        document.body.setAttribute("aria-busy", "false");
      }
    }
  }

  #subjects(state: State): [Subject, Subject] {
    const { scenario } = state;
    const found = typeof scenario === "string" ? this.#library.find((one) => one.name === scenario) : { ...scenario, files: filesOf(scenario) };
    if (found === undefined) {
      throw new Error(`there is no scenario ${String(scenario)}`);
    }
    const { path, text, files } = found;
    return state.sides.map(({ set }) => ({ path, text, files, set })) as [Subject, Subject];
  }

  async #draw(state: State, isCurrent: () => boolean): Promise<void> {
    const names = namesOf(state);
    for (const view of VIEWS) {
      element(`view-${view}`).hidden = view !== state.view;
      const tab = element(`tab-${view}`);
      tab.setAttribute("aria-selected", String(view === state.view));
      tab.tabIndex = view === state.view ? 0 : -1;
    }
    if (state.view !== "packets") {
      this.#packets.stop();
    }
    const both = (question: (at: 0 | 1) => Record<string, unknown>): Promise<[Reply, Reply]> =>
      Promise.all([this.#clients[0].ask(question(0)), this.#clients[1].ask(question(1))]);
    const zoom = ([from, until]: [number, number]): void => void this.show({ ...this.#state, rangeS: until > from ? [from, until] : null });
    if (state.view === "time" || state.view === "packets") {
      const replies = await this.#timelines(state);
      if (!isCurrent()) {
        return;
      }
      const timelines = replies.map(timelineOf);
      this.#connections(state, timelines.map(({ connections }) => connections));
      if (state.view === "time") {
        drawTime(element("view-time"), timelines.map((one, at) => [names[at]!, one]), zoom);
      } else {
        this.#packets.show(names, replies, zoom);
      }
    } else if (state.view === "page") {
      const replies = await both((at) => ({ ask: "run", variant: state.sides[at].variant, seed: state.seed, tables: ["pages", "objects", "fetches"] }));
      if (isCurrent()) {
        drawWaterfalls(element("view-page"), names, replies);
      }
    } else if (state.view === "models") {
      const replies = await both((at) => ({ ask: "models", variant: state.sides[at].variant }));
      if (isCurrent()) {
        showModels(element("view-models"), names, replies, this.#studiedOf(state)?.summaries ?? null);
      }
    } else {
      // What is known is drawn at once, as after a change of the window; more seeds follow.
      const progress = this.#studiedOf(state);
      if (progress !== null) {
        drawTimes(element("view-times"), names, progress);
      }
    }
  }

  /** Returns what the seeds that have run say about a state. */
  #studiedOf(state: State): Progress | null {
    return this.#studied?.key === keyOf(state) ? this.#studied.progress : null;
  }

  /** Returns the timelines of both sides over one time. */
  async #timelines(state: State): Promise<[Reply, Reply]> {
    // While keys change the axis stays, so that the eye compares, and no run has to find the time again.
    const key = JSON.stringify([state.scenario, state.sides.map(({ variant }) => variant), state.seed, state.connection]);
    const usual = this.#usual?.key === key ? this.#usual.rangeS : null;
    const ask = (at: 0 | 1, range_s: [number, number] | null): Promise<Reply> =>
      this.#clients[at].ask({
        ask: "timeline",
        variant: state.sides[at].variant,
        seed: state.seed,
        samples: SAMPLES,
        range_s,
        is_brief: state.rangeS === null,
        connections: null,
        followed: state.connection,
      });
    const range = state.rangeS ?? usual;
    if (range !== null) {
      return Promise.all([ask(0, range), ask(1, range)]);
    }
    const replies = await Promise.all([ask(0, null), ask(1, null)]);
    const [one, other] = replies.map(({ head }) => head["range_s"] as [number, number]) as [[number, number], [number, number]];
    // Whole runs begin together; the time around a connection is that of the first side.
    const rangeS: [number, number] = [one[0], one[0] === other[0] ? Math.max(one[1], other[1]) : one[1]];
    this.#usual = { key, rangeS };
    return one[0] === other[0] ? replies : [replies[0], await ask(1, one)];
  }

  async #showControls(outlines: [Outline, Outline]): Promise<void> {
    const state = this.#state, variants = outlines[0].variants;
    options("first", variants.map((name) => [name, name]));
    options("second", outlines[1].variants.map((name) => [name, name]));
    const isGiven = typeof state.scenario !== "string";
    const given: [string, string][] = isGiven ? [[FROM_FILE, `${outlines[0].title} (from a file)`]] : [];
    options("scenario", [...given, ...this.#library.map((one): [string, string] => [one.name, `${one.title} (${one.name})`])]);
    choice("scenario").value = typeof state.scenario === "string" ? state.scenario : FROM_FILE;
    choice("first").value = state.sides[0].variant;
    choice("second").value = state.sides[1].variant;
    element<HTMLInputElement>("seed").value = String(state.seed);
    element("title").textContent = outlines[0].title;
    document.title = `${outlines[0].title}: CATNIP`;
    element("warnings").replaceChildren(...outlines[0].warnings.map((text) => tag("li", {}, text)));
    this.#showStep();
    const controlled = JSON.stringify([state.scenario, state.sides.map(({ variant }) => variant)]);
    if (controlled !== this.#controlled || !this.#controls.areOf(state.sides)) {
      const documents = await Promise.all(
        this.#clients.map(async (client, at) => {
          // What the controls start from is the scenario itself.
          const side = state.sides[at]!;
          const { head } = await client.ask({ ask: "document", variant: side.variant });
          return head["document"] as Document;
        }),
      );
      this.#controls.show(documents as [Document, Document], state.sides, this.#axes);
      this.#controlled = controlled;
    }
  }

  #showStep(): void {
    const { step } = this.#state;
    const shown = step === null ? undefined : TOUR[step];
    element("tour").hidden = shown === undefined;
    if (step === null || shown === undefined) {
      return;
    }
    const { title, text } = shown;
    element("step-title").textContent = `${step + 1} of ${TOUR.length}: ${title}`;
    element("step-text").textContent = text;
    element<HTMLButtonElement>("step-back").disabled = step === 0;
    element("step-next").textContent = step === TOUR.length - 1 ? "End" : "Next";
  }

  async #study(isCurrent: () => boolean): Promise<void> {
    const state = this.#state, names = namesOf(state), key = keyOf(state);
    const told = (progress: Progress): void => {
      const { summaries, effects, isOver } = progress;
      this.#studied = { key, progress };
      const seeds = `${summaries[0].seeds} seeds${isOver ? "" : ", more are being run"}`;
      const texts = effects.map((effect) => `${effects.length > 1 ? `${effect.group}: ` : ""}${sentence(effect, names)}`);
      const instead = names[0] === names[1] ? "Both runs are the same." : withoutInterval(names, summaries);
      element("effect").replaceChildren(...(texts.length > 0 ? texts : [instead]).map((text) => tag("p", {}, text)), tag("p", { class: "hint" }, seeds));
      document.body.dataset["seeds"] = String(summaries[0].seeds);
      document.body.dataset["studied"] = String(isOver);
      if (state.view === "times") {
        drawTimes(element("view-times"), names, progress);
      } else if (state.view === "models" && isOver) {
        void this.#draw(state, isCurrent);
      }
    };
    document.body.dataset["studied"] = "false";
    try {
      await study(this.#clients, [state.sides[0].variant, state.sides[1].variant], SEEDS, isCurrent, told);
    } catch (failure) {
      if (isCurrent()) {
        tell(failure instanceof Error ? failure.message : String(failure));
      }
    }
  }

  #set(sets: Sets): void {
    const sides = this.#state.sides.map((side, at) => ({ ...side, set: sets[at]! })) as State["sides"];
    void this.show({ ...this.#state, sides });
  }

  #connections(state: State, found: { number: number; name: string }[][]): void {
    const all = new Map(found.flat().map(({ number, name }) => [number, name]));
    options("connection", [["", "the one that sends most"], ...[...all].map(([number, name]): [string, string] => [String(number), name])]);
    choice("connection").value = state.connection !== null && all.has(state.connection) ? String(state.connection) : "";
  }

  #listen(): void {
    choice("scenario").addEventListener("change", () => {
      if (choice("scenario").value !== FROM_FILE) {
        void this.show(stateFor(choice("scenario").value, { seed: this.#state.seed, view: this.#state.view }));
      }
    });
    for (const [id, at] of [["first", 0], ["second", 1]] as const) {
      choice(id).addEventListener("change", () => {
        const sides = [...this.#state.sides] as State["sides"];
        sides[at] = { ...sides[at], variant: choice(id).value };
        void this.show({ ...this.#state, sides, rangeS: null });
      });
    }
    element<HTMLInputElement>("seed").addEventListener("change", () => {
      const seed = Math.max(0, Math.floor(Number(element<HTMLInputElement>("seed").value) || 0));
      void this.show({ ...this.#state, seed });
    });
    choice("connection").addEventListener("change", () => {
      const { value } = choice("connection");
      void this.show({ ...this.#state, connection: value === "" ? null : Number(value), rangeS: null });
    });
    element("whole").addEventListener("click", () => {
      this.#usual = null;
      void this.show({ ...this.#state, rangeS: null });
    });
    this.#listenToTabs();
    this.#listenToFiles();
    this.#listenToDownloads();
    element("start-tour").addEventListener("click", () => void this.#goTo(0));
    element("step-back").addEventListener("click", () => void this.#goTo(Math.max(0, (this.#state.step ?? 0) - 1)));
    element("step-next").addEventListener("click", () => void this.#goTo((this.#state.step ?? 0) + 1));
    element("step-end").addEventListener("click", () => void this.#goTo(TOUR.length));
    addEventListener("hashchange", () => void this.restore());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => void this.show(this.#state));
    let resized: ReturnType<typeof setTimeout> | undefined;
    addEventListener("resize", () => {
      clearTimeout(resized);
      resized = setTimeout(() => void this.show(this.#state), 200);
    });
  }

  async #goTo(step: number): Promise<void> {
    if (step >= TOUR.length) {
      await this.show({ ...this.#state, step: null });
      element("start-tour").focus();
      return;
    }
    await this.show(stateAt(step));
    say(`${element("step-title").textContent}. ${element("step-text").textContent}`);
  }

  #listenToTabs(): void {
    const go = (view: View): void => {
      void this.show({ ...this.#state, view });
      element(`tab-${view}`).focus();
    };
    for (const view of VIEWS) {
      element(`tab-${view}`).addEventListener("click", () => go(view));
      element(`tab-${view}`).addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (by !== undefined) {
          go(VIEWS[(VIEWS.indexOf(view) + by + VIEWS.length) % VIEWS.length]!);
          event.preventDefault();
        }
      });
    }
  }

  #listenToFiles(): void {
    const take = async (files: File[]): Promise<void> => {
      if (files.length === 0) {
        return;
      }
      try {
        await this.show(stateFor(await givenOf(files, this.#library), { view: this.#state.view }));
      } catch (failure) {
        tell(failure instanceof Error ? failure.message : String(failure));
      }
    };
    const input = element<HTMLInputElement>("files");
    input.addEventListener("change", () => {
      void take([...(input.files ?? [])]);
      input.value = "";
    });
    document.body.addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.body.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
    document.body.addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      void take([...(event.dataTransfer?.files ?? [])]);
    });
  }

  #listenToDownloads(): void {
    const list = choice("download");
    list.addEventListener("change", () => {
      const { value } = list;
      list.value = "";
      void this.#download(value).catch((failure: unknown) => tell(failure instanceof Error ? failure.message : String(failure)));
    });
  }

  async #download(what: string): Promise<void> {
    const state = this.#state, names = namesOf(state);
    const [kind, of = ""] = what.split(" ");
    const name = typeof state.scenario === "string" ? state.scenario : state.scenario.path.replace(/\.toml$/, "");
    const side = of === "second" ? 1 : 0;
    const { variant } = state.sides[side];
    if (kind === "toml") {
      const { head } = await this.#clients[side].ask({ ask: "document", variant });
      save(`${name}.toml`, "application/toml", String(head["text"]));
    } else if (kind === "csv") {
      const ask = (at: 0 | 1): Promise<Reply> => this.#clients[at].ask({ ask: "run", variant: state.sides[at].variant, seed: state.seed, tables: [of] });
      save(`${name}-${of}.csv`, "text/csv", csv(of, names, await Promise.all([ask(0), ask(1)])));
    } else if (kind === "png") {
      save(`${name}-${state.view}.png`, "image/png", await picture(element(`view-${state.view}`), inkOf().paper));
    } else if (kind === "pcapng" || kind === "qlog") {
      const bytes = await log(this.#clients[side], variant, state.seed, kind);
      save(`${name}-${side + 1}.${kind === "qlog" ? "sqlog" : "pcapng"}`, "application/octet-stream", bytes as BlobPart);
    }
  }
}

/** Returns a state with the variants that there are: those that it names, or the first two. */
function withVariants(state: State, outlines: [Outline, Outline]): State {
  const sides = state.sides.map((side, at) => {
    const names = outlines[at]!.variants;
    if (names.length === 0) {
      throw new Error(`${outlines[at]!.title}: its hosts are real, so that a page cannot run it`);
    }
    const variant = names.includes(side.variant) ? side.variant : (names[at] ?? names[0]!);
    return { ...side, variant };
  });
  return { ...state, sides: sides as State["sides"] };
}

/** Returns the names of both runs: their variants, and what sets them apart if these are the same. */
function namesOf({ sides }: State): [string, string] {
  const [one, other] = sides;
  const differing = (mine: Record<string, string>, theirs: Record<string, string>): string =>
    Object.entries(mine).filter(([key, value]) => theirs[key] !== value).map(([key, value]) => `${key.split(".").slice(-2).join(".")} = ${value}`).join(", ");
  const name = (side: State["sides"][0], than: State["sides"][0]): string => {
    const by = differing(side.set, than.set);
    return by === "" ? side.variant : `${side.variant}, ${by}`;
  };
  return [name(one, other), name(other, one)];
}

/** Returns what determines the runs of a state. */
function keyOf({ scenario, sides }: State): string {
  return JSON.stringify([scenario, sides]);
}

function options(id: string, entries: [string, string][]): void {
  const list = choice(id);
  const same = list.options.length === entries.length && entries.every(([value, label], at) => list.options[at]!.value === value && list.options[at]!.textContent === label);
  if (!same) {
    list.replaceChildren(...entries.map(([value, label]) => tag("option", { value }, label)));
  }
}

function tell(text: string): void {
  element("told").textContent = text;
}

async function main(): Promise<void> {
  try {
    const [compiled, library, root] = await Promise.all([module(), scenarios(), schema()]);
    const script = document.getElementById("worker")!.textContent!;
    const page = new Page([new Client(script, compiled), new Client(script, compiled)], library, new Fields(root));
    await page.restore();
  } catch (failure) {
    tell(`The page cannot start: ${failure instanceof Error ? failure.message : String(failure)}`);
  }
}

void main();
