// The engine: an instance of the WebAssembly module, which answers one question at a time on the calling thread.

import { decode, encode, type Head, type Reply } from "./message";

/** Exports of the module, see crates/page/src/interface.rs. */
interface Exports {
  memory: WebAssembly.Memory;
  allocate(len: number): number;
  ask(question: number, len: number): number;
  reply_len(): number;
  panic_message(): number;
  panic_len(): number;
}

/** Contents of files by path relative to the scenario that names them. */
export type Files = Record<string, Uint8Array>;

/** Question that the engine refuses, with the message that the command line has for it. */
export class Refused extends Error {}

/** Defect of the engine, which has started anew and forgotten what was open. */
export class Trap extends Error {}

export class Engine {
  readonly #module: WebAssembly.Module;
  #exports: Exports;

  constructor(module: WebAssembly.Module) {
    this.#module = module;
    this.#exports = instance(module);
  }

  /** Answers a question. Throws Refused if it has no answer, and Trap if the engine failed at it. */
  ask(head: Head, arrays?: Uint8Array): Reply {
    const question = encode(head, arrays);
    const { memory, allocate, ask, reply_len } = this.#exports;
    let reply: ArrayBuffer;
    try {
      const address = allocate(question.length);
      new Uint8Array(memory.buffer, address, question.length).set(question);
      const at = ask(address, question.length);
      reply = memory.buffer.slice(at, at + reply_len());
    } catch (failure) {
      const told = this.#panic();
      this.#exports = instance(this.#module);
      throw new Trap(`${JSON.stringify(head).slice(0, 300)}: ${told || String(failure)}`);
    }
    const decoded = decode(reply);
    if (typeof decoded.head["error"] === "string") {
      throw new Refused(decoded.head["error"]);
    }
    return decoded;
  }

  /** Opens a scenario, or one variant of it, in a slot; returns its outline. */
  open(slot: number, path: string, text: string, files: Files, set: [string, string][] = [], only: string | null = null): Outline {
    const places: Record<string, [number, number]> = {};
    let end = 0;
    for (const [name, bytes] of Object.entries(files)) {
      places[name] = [end, bytes.length];
      end += bytes.length;
    }
    const arrays = new Uint8Array(end);
    for (const [name, bytes] of Object.entries(files)) {
      arrays.set(bytes, places[name]![0]);
    }
    return this.ask({ ask: "open", slot, path, text, set, only, files: places }, arrays).head as unknown as Outline;
  }

  #panic(): string {
    try {
      const { memory, panic_message, panic_len } = this.#exports;
      return new TextDecoder().decode(new Uint8Array(memory.buffer, panic_message(), panic_len()));
    } catch {
      return "";
    }
  }
}

/** Outline of an open scenario. */
export interface Outline {
  id: string;
  title: string;
  variants: string[];
  warnings: string[];
  /** Number of pairs of hosts of each variant. */
  pairs: number[];
  /** Usual number of seeds. */
  seeds: number;
  /** Keys whose values the variants combine. */
  axes: string[];
}

function instance(module: WebAssembly.Module): Exports {
  return new WebAssembly.Instance(module, {}).exports as unknown as Exports;
}
