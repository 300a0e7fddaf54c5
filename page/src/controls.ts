// Controls made from the JSON Schema: a slider, a list or a check box for each key of a scenario, for both runs or for each.

import type { State } from "./state";
import { amountOf, Fields, valueOf, withChoice, withNumber, type Document, type Field } from "./schema";

/** Range of a slider around the value of the scenario, in doublings, and the number of its positions in each. */
const OCTAVES = 5;
const POSITIONS = 20;
const NAMES = ["above", "below"] as const;

type Sides = State["sides"];
type Values = [string | null, string | null];
/** Keys that each of both runs changes, with their values. */
export type Sets = [Record<string, string>, Record<string, string>];

/** Controls of a scenario. `changed` receives the new keys of both runs. */
export class Controls {
  readonly #place: HTMLElement;
  readonly #fields: Fields;
  readonly #changed: (sets: Sets) => void;
  #documents: [Document, Document] = [{}, {}];
  #sets: Sets = [{}, {}];
  /** Keys that a reader has added, and those that differ between the runs. */
  readonly #added = new Set<string>();
  readonly #split = new Set<string>();

  constructor(place: HTMLElement, fields: Fields, changed: (sets: Sets) => void) {
    this.#place = place;
    this.#fields = fields;
    this.#changed = changed;
  }

  /** Shows the keys of both variants, of which `axes` are chosen elsewhere. */
  show(documents: [Document, Document], sides: Sides, axes: string[]): void {
    this.#documents = documents;
    this.#sets = [{ ...sides[0].set }, { ...sides[1].set }];
    this.#added.clear();
    this.#split.clear();
    const fields = new Map<string, Field>();
    for (const document of documents) {
      for (const field of this.#fields.of(document)) {
        fields.set(field.key, field);
      }
    }
    const absent = new Map<string, Field>();
    for (const document of documents) {
      for (const field of this.#fields.absent(document)) {
        if (!fields.has(field.key)) {
          absent.set(field.key, field);
        }
      }
    }
    for (const key of this.#sets.flatMap((set) => Object.keys(set))) {
      const field = absent.get(key);
      if (field !== undefined) {
        fields.set(key, field);
        absent.delete(key);
        this.#added.add(key);
      }
    }
    const groups = new Map<string, Field[]>();
    for (const field of fields.values()) {
      if (!axes.includes(field.key)) {
        const table = tableOf(field.key);
        groups.set(table, [...(groups.get(table) ?? []), field]);
      }
    }
    const made = [...groups].map(([table, of]) => {
      const group = tag("fieldset", {}, tag("legend", {}, table === "" ? "run" : table));
      group.append(...of.map((field) => this.#row(field)));
      return group;
    });
    this.#place.replaceChildren(...made, this.#adder([...absent.values()], documents, axes));
  }

  /** Returns true if the controls show what both runs change. */
  areOf(sides: Sides): boolean {
    return JSON.stringify(this.#sets) === JSON.stringify(sides.map(({ set }) => set));
  }

  /** Returns the value of a key in both runs. */
  #values(key: string): Values {
    const value = (at: 0 | 1): string | null => this.#sets[at][key] ?? valueOf(this.#documents[at], key);
    return [value(0), value(1)];
  }

  #row(field: Field): HTMLElement {
    const row = tag("div", { class: "row" });
    this.#fill(row, field);
    return row;
  }

  #fill(row: HTMLElement, field: Field): void {
    const values = this.#values(field.key);
    const isSplit = values[0] !== values[1] || this.#split.has(field.key);
    const name = field.key.split(".").slice(tableOf(field.key) === "" ? 0 : tableOf(field.key).split(".").length).join(".");
    const title = tag("span", { class: "name", title: field.help }, name.replace(/_s$/, ", s"));
    const buttons = tag("span", { class: "small" });
    if (isSplit && values[0] !== null) {
      buttons.append(this.#button("=", `${field.key}: the same for both`, () => {
        this.#split.delete(field.key);
        this.#set(field, 1, values[0]);
        this.#emit();
        this.#fill(row, field);
      }));
    } else if (!isSplit) {
      buttons.append(this.#button("≠", `${field.key}: one for each`, () => {
        this.#split.add(field.key);
        this.#fill(row, field);
      }));
    }
    if (this.#sets.some((set) => field.key in set)) {
      buttons.append(this.#button("↺", `${field.key}: as in the scenario`, () => {
        for (const set of this.#sets) {
          delete set[field.key];
        }
        this.#split.delete(field.key);
        this.#emit();
        this.#fill(row, field);
      }));
    }
    const inputs = isSplit
      ? NAMES.map((of, at) => this.#input(row, field, values[at]!, [at as 0 | 1], `${field.key}, ${of}`, of))
      : [this.#input(row, field, values[0]!, [0, 1], field.key, "")];
    row.replaceChildren(title, buttons, ...inputs);
    row.classList.toggle("changed", this.#sets.some((set) => field.key in set));
  }

  #input(row: HTMLElement, field: Field, value: string | null, sides: (0 | 1)[], label: string, of: string): HTMLElement {
    const place = tag("div", { class: `input ${of}` });
    const current = value ?? "";
    const give = (next: string): void => {
      for (const side of sides) {
        this.#set(field, side, next);
      }
      this.#emit();
      row.classList.toggle("changed", this.#sets.some((set) => field.key in set));
    };
    if (field.kind === "flag") {
      const box = tag("input", { type: "checkbox", "aria-label": label });
      box.checked = current === "true";
      box.addEventListener("change", () => give(String(box.checked)));
      place.append(box);
      return place;
    }
    const text = tag("input", { type: "text", value: current, "aria-label": label, spellcheck: "false" });
    const isNamed = field.kind === "choice" && !field.hasParameters;
    const slider = isNamed ? null : this.#slider(field, current, label, (next) => {
      text.value = next;
      give(next);
    });
    text.addEventListener("change", () => {
      give(text.value.trim());
      this.#fill(row, field);
    });
    if (field.kind === "choice") {
      const list = tag("select", { "aria-label": `${label}, kind` });
      const name = current.split(/[:|]/)[0]!.trim();
      const names = field.choices.includes(name) ? field.choices : [name, ...field.choices];
      list.append(...names.map((one) => tag("option", { value: one }, one === "" ? "–" : one)));
      list.value = name;
      list.addEventListener("change", () => {
        give(isNamed ? list.value : withChoice(text.value, list.value));
        this.#fill(row, field);
        row.querySelector<HTMLElement>(`.input${of === "" ? "" : `.${of}`} select`)?.focus();
      });
      place.append(list);
    }
    place.append(...(isNamed ? [] : [text]), ...(slider === null ? [] : [slider]));
    return place;
  }

  /** Returns a slider for the number of a value, as a factor of the scenario's own. */
  #slider(field: Field, current: string, label: string, give: (value: string) => void): HTMLElement | null {
    const amount = amountOf(current);
    const own = amountOf(valueOf(this.#documents[0], field.key) ?? valueOf(this.#documents[1], field.key) ?? field.example);
    const centre = own !== null && own.before === amount?.before && unitOf(own.after) === unitOf(amount.after) ? own.number : amount?.number;
    if (amount === null || centre === undefined || centre === 0 || amount.number === 0) {
      return null;
    }
    const slider = tag("input", {
      type: "range",
      min: String(-OCTAVES * POSITIONS),
      max: String(OCTAVES * POSITIONS),
      value: String(Math.round(Math.log2(amount.number / centre) * POSITIONS)),
      "aria-label": `${label}, slider`,
    });
    slider.setAttribute("aria-valuetext", current);
    slider.addEventListener("input", () => {
      const number = Math.min(field.most, Math.max(field.least, centre * 2 ** (Number(slider.value) / POSITIONS)));
      const value = slider.value === "0" && own !== null ? `${amount.before}${centre}${amount.after}` : withNumber(amount, number, field.isWhole);
      slider.setAttribute("aria-valuetext", value);
      give(value);
    });
    return slider;
  }

  #adder(absent: Field[], documents: [Document, Document], axes: string[]): HTMLElement {
    const list = tag("select", { id: "add" });
    list.append(tag("option", { value: "" }, "Another key…"), ...absent.map(({ key }) => tag("option", { value: key }, key)));
    list.addEventListener("change", () => {
      const field = absent.find(({ key }) => key === list.value);
      if (field !== undefined) {
        for (const side of [0, 1] as const) {
          this.#set(field, side, field.example);
        }
        this.#emit();
        const sides = this.#sets.map((set) => ({ variant: "", set })) as Sides;
        this.show(documents, sides, axes);
      }
    });
    return tag("label", {}, "Add", list);
  }

  #button(text: string, label: string, act: () => void): HTMLElement {
    const button = tag("button", { type: "button", title: label, "aria-label": label }, text);
    button.addEventListener("click", act);
    return button;
  }

  #set(field: Field, side: 0 | 1, value: string | null): void {
    if (value === null || (value === valueOf(this.#documents[side], field.key) && !this.#added.has(field.key))) {
      delete this.#sets[side][field.key];
    } else {
      this.#sets[side][field.key] = value;
    }
  }

  #emit(): void {
    this.#changed([{ ...this.#sets[0] }, { ...this.#sets[1] }]);
  }
}

/** Creates an element with attributes and children; texts are never markup. */
export function tag<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string>,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Returns the table of a key: `link.line` of `link.line.rate`, `tcp` of `tcp.control`, nothing of `duration`. */
function tableOf(key: string): string {
  const parts = key.split(".");
  return parts.length === 1 ? "" : parts[0] === "tcp" ? "tcp" : parts.slice(0, 2).join(".");
}

function unitOf(after: string): string {
  return after.split(",")[0]!;
}
