// Fields of a scenario by its JSON Schema: what kind of value each key has, and in which words it is described.

export type Value = string | number | boolean;
export type Document = { [key: string]: Value | Document | unknown[] };

/** Part of a JSON Schema, as `catnip schema` prints it. */
export interface Schema {
  type?: string | string[];
  description?: string;
  pattern?: string;
  enum?: string[];
  const?: string;
  minimum?: number;
  maximum?: number;
  examples?: unknown[];
  default?: unknown;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  "x-notation"?: string;
}

/** Key that a reader can change. */
export interface Field {
  /** Path of the key, as `--set` takes it. */
  key: string;
  /** `amount`: a number with or without a unit; `choice`: a name, behind which parameters may follow. */
  kind: "flag" | "amount" | "choice";
  choices: string[];
  help: string;
  least: number;
  most: number;
  isWhole: boolean;
  /** True if a choice may have parameters. */
  hasParameters: boolean;
  example: string;
}

/** Notations whose values are a number and a unit. */
const AMOUNTS = ["rate", "rates", "delays", "time", "size", "share"];
/** Tables of a scenario with keys that a reader changes; the other keys say what it is about. */
const TABLES = ["duration", "warm_up", "link", "tcp", "traffic", "node"];
/** Keys that tie the parts of a scenario together: changing one alone makes no sense. */
const TIES = ["kind", "from", "to", "clients", "servers", "link", "port", "paths", "processing"];

export class Fields {
  readonly #root: Schema;

  constructor(root: Schema) {
    this.#root = root;
  }

  /** Returns the fields that a document sets, in its order. */
  of(document: Document): Field[] {
    const found = [...this.#tables(document, this.#root, [])].flatMap(({ table, part, path }) =>
      Object.entries(table).map(([name, value]) => {
        const below = typeof value === "object" ? undefined : this.#below(part, table, path, name);
        return below === undefined ? null : fieldOf([...path, name], this.#resolved(below, undefined));
      }),
    );
    return found.filter((field) => field !== null);
  }

  /** Returns the fields that the tables of a document might set and do not. */
  absent(document: Document): Field[] {
    const found = [...this.#tables(document, this.#root, [])].flatMap(({ table, part, path }) =>
      Object.entries(path.length === 0 ? {} : this.#properties(part, table)).map(([name, of]) =>
        name in table || `${name}_s` in table ? null : fieldOf([...path, name], this.#resolved(of, undefined)),
      ),
    );
    // A value to begin with is the one that applies, or one that a notation names.
    return found.filter((field) => field !== null).filter(({ example }) => example !== "");
  }

  /** Yields a table and those in it, each with its part of the schema. */
  *#tables(table: Document, part: Schema, path: string[]): Iterable<{ table: Document; part: Schema; path: string[] }> {
    yield { table, part, path };
    for (const [name, value] of Object.entries(table)) {
      const below = this.#below(part, table, path, name);
      if (below !== undefined && typeof value === "object" && !Array.isArray(value)) {
        yield* this.#tables(value as Document, this.#resolved(below, value as Document), [...path, name]);
      }
    }
  }

  /** Returns the part of a key of a table; undefined if there is none, or if it is not for readers. */
  #below(part: Schema, table: Document, path: string[], name: string): Schema | undefined {
    if (path.length === 0 && !TABLES.includes(name)) {
      return undefined;
    }
    const { additionalProperties: others } = part;
    return this.#properties(part, table)[name] ?? (typeof others === "object" ? others : undefined);
  }

  #properties(part: Schema, table: Document): Record<string, Schema> {
    return this.#resolved(part, table).properties ?? {};
  }

  /** Returns a part without references; of several alternatives the one that has the kind of `table`. */
  #resolved(part: Schema, table: Document | undefined): Schema {
    if (part.$ref !== undefined) {
      return this.#resolved({ ...this.#root.$defs![part.$ref.replace("#/$defs/", "")]!, ...without(part) }, table);
    }
    if (part.allOf !== undefined && part.allOf.some((one) => one.$ref !== undefined)) {
      const merged = part.allOf.map((one) => this.#resolved(one, table)).reduce((all, one) => ({ ...all, ...one }), {});
      return { ...merged, ...without(part) };
    }
    const alternatives = (part.anyOf ?? part.oneOf ?? []).map((one) => this.#resolved(one, undefined));
    const chosen = alternatives.find((one) => one.properties?.["kind"]?.const === table?.["kind"]);
    return table !== undefined && chosen !== undefined ? { ...chosen, ...without(part) } : part;
  }
}

function without({ $ref: _ref, allOf: _all, anyOf: _any, oneOf: _one, ...rest }: Schema): Schema {
  return rest;
}

function fieldOf(path: string[], part: Schema): Field | null {
  const name = path.at(-1)!, notation = part["x-notation"] ?? "";
  const types = [part.type ?? []].flat();
  if (TIES.includes(name)) {
    return null;
  }
  const choices = part.enum ?? choicesOf(part.pattern ?? "");
  const isNumber = types.includes("integer") || types.includes("number");
  const kind = types.includes("boolean") ? "flag" : isNumber || AMOUNTS.includes(notation) ? "amount" : choices.length > 1 ? "choice" : null;
  if (kind === null) {
    return null;
  }
  const example = part.default ?? (part.examples ?? [])[0] ?? choices[0] ?? "";
  return {
    key: path.join("."),
    kind,
    choices,
    help: (part.description ?? "").replaceAll("`", ""),
    least: part.minimum ?? 0,
    most: part.maximum ?? Infinity,
    isWhole: types.includes("integer"),
    hasParameters: part.enum === undefined && (part.pattern ?? "").includes("[:|]"),
    example: typeof example === "object" ? "" : String(example),
  };
}

/** Returns the names of a pattern such as `^\s*(red|codel)\s*([:|].*)?$`. */
function choicesOf(pattern: string): string[] {
  const names = /^\^(?:\\s\*)?\(([\w.|-]+)\)/.exec(pattern)?.[1];
  return names === undefined ? [] : names.split("|");
}

/** Number of a value, and the texts before and behind it: of `drop-tail:10`, `drop-tail:`, 10 and nothing. */
export interface Amount {
  before: string;
  number: number;
  after: string;
}

/** Returns the number by which a value is moved, or null if it has none. */
export function amountOf(value: string): Amount | null {
  const found = /^(\s*|[\w-]+:)(\d+\.?\d*|\.\d+)([a-zA-Z%]*(?:,.*)?)$/.exec(value);
  return found === null ? null : { before: found[1]!, number: Number(found[2]), after: found[3]! };
}

/** Returns a value with another number, rounded to three digits, or to a whole number where the value was one without a unit of its own. */
export function withNumber(of: Amount, number: number, isWhole: boolean): string {
  const rounded = isWhole || (of.before !== "" && Number.isInteger(of.number) && !of.after.startsWith("%")) ? Math.max(1, Math.round(number)) : Number(number.toPrecision(3));
  return `${of.before}${rounded}${of.after}`;
}

/** Returns the value of another choice; its parameters are those of the old one, as far as a single number. */
export function withChoice(value: string, name: string): string {
  const found = /^\s*[\w.-]+:(\d+)(?:,|$)/.exec(value);
  return found === null ? name : `${name}:${found[1]}`;
}

/** Returns the value of a key in a document as `--set` takes it; null if it has none. */
export function valueOf(document: Document, key: string): string | null {
  let at: unknown = document;
  for (const name of key.split(".")) {
    at = typeof at === "object" && at !== null ? (at as Document)[name] : undefined;
  }
  return typeof at === "object" || at === undefined ? null : String(at);
}
