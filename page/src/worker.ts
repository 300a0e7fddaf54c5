// Worker with an engine of its own. The first message has the module; each other one is a request with its number.

import { Engine, Trap, type Files } from "./engine";
import type { Head, Values } from "./message";

/** Request to a worker: a question, or a scenario to open. */
export interface Request {
  id: number;
  ask?: Head;
  open?: { path: string; text: string; files: Files; set: [string, string][]; only: string | null };
}

/** Answer to a request. */
export interface Answer {
  id: number;
  head?: Head;
  arrays?: Record<string, Values>;
  error?: string;
  /** True if the engine has started anew, and nothing is open. */
  hasForgotten?: boolean;
}

let engine: Engine | undefined;

self.addEventListener("message", ({ data }: MessageEvent<WebAssembly.Module | Request>) => {
  if (data instanceof WebAssembly.Module) {
    engine = new Engine(data);
    return;
  }
  const { id, ask, open } = data;
  let answer: Answer;
  try {
    if (engine === undefined) {
      throw new Error("the worker has no module");
    }
    if (open !== undefined) {
      answer = { id, head: { ...engine.open(0, open.path, open.text, open.files, open.set, open.only) }, arrays: {} };
    } else {
      answer = { id, ...engine.ask(ask!["ask"] === "change" ? ask! : { slot: 0, ...ask }) };
    }
  } catch (failure) {
    const error = failure instanceof Error ? failure.message : String(failure);
    answer = { id, error, hasForgotten: failure instanceof Trap };
  }
  const buffers = new Set(Object.values(answer.arrays ?? {}).map((values) => values.buffer as ArrayBuffer));
  (self as unknown as Worker).postMessage(answer, [...buffers]);
});
