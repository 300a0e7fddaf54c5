// Client of a worker, which answers questions in order. A worker that is busy for long when it is asked anew is replaced.

import type { Files, Outline } from "./engine";
import type { Head, Reply } from "./message";
import type { Answer, Request } from "./worker";

/** Failure that the engine tells. */
export class Failure extends Error {}

/** Reason why a question has no answer: the worker was stopped for one that matters more. */
export class Dropped extends Error {}

/** Scenario that a client has open, as the questions about it see it. */
export interface Subject {
  path: string;
  text: string;
  files: Files;
  set: Record<string, string>;
}

/** Time for which a new question waits for those before it, ms. */
const PATIENCE_MS = 400;

interface Waiting {
  resolve: (reply: Reply) => void;
  reject: (failure: Error) => void;
}

export class Client {
  readonly #url: string;
  readonly #module: WebAssembly.Module;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker;
  #last = 0;
  /** Key of the open scenario, and its outline. */
  #opened: { key: string; outline: Promise<Outline> } | undefined;
  /** Outline with all variants of the scenario that was opened last. */
  #whole: { name: string; outline: Outline } | undefined;
  #since = 0;

  constructor(script: string, module: WebAssembly.Module) {
    this.#url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.#module = module;
    this.#worker = this.#started();
  }

  /** Drops all questions that have no answer yet; a worker that has had them for long is stopped. */
  drop(): void {
    if (this.#waiting.size === 0) {
      return;
    }
    if (performance.now() - this.#since > PATIENCE_MS) {
      this.#worker.terminate();
      this.#opened = undefined;
      this.#worker = this.#started();
    }
    for (const { reject } of this.#waiting.values()) {
      reject(new Dropped());
    }
    this.#waiting.clear();
  }

  /** Opens a scenario, unless it is open; returns its outline. Of one that was open before, the variant alone is read. */
  open(name: string, { path, text, files, set }: Subject, variant: string): Promise<Outline> {
    const whole = this.#whole?.name === name ? this.#whole.outline : null;
    const only = whole !== null && whole.variants.includes(variant) ? variant : null;
    const key = JSON.stringify([name, set, only]), keyOfAll = JSON.stringify([name, set, null]);
    if (this.#opened === undefined || ![key, keyOfAll].includes(this.#opened.key)) {
      const reply = this.#send({ open: { path, text, files, set: Object.entries(set), only } });
      const outline = reply.then(({ head }) => {
        const found = head as unknown as Outline;
        if (only === null) {
          this.#whole = { name, outline: found };
          return found;
        }
        return { ...found, variants: whole!.variants, pairs: whole!.pairs, axes: whole!.axes };
      });
      this.#opened = { key, outline };
      outline.catch(() => {
        if (this.#opened?.key === key) {
          this.#opened = undefined;
        }
      });
    }
    return this.#opened.outline;
  }

  ask(question: Head): Promise<Reply> {
    return this.#send({ ask: question });
  }

  #started(): Worker {
    const worker = new Worker(this.#url);
    worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      this.#since = performance.now();
      if (data.hasForgotten === true) {
        this.#opened = undefined;
      }
      if (data.error !== undefined) {
        waiting?.reject(new Failure(data.error));
      } else {
        waiting?.resolve({ head: data.head!, arrays: data.arrays! });
      }
    });
    worker.postMessage(this.#module);
    return worker;
  }

  #send(request: Omit<Request, "id">): Promise<Reply> {
    this.#last += 1;
    const id = this.#last;
    if (this.#waiting.size === 0) {
      this.#since = performance.now();
    }
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ...request });
    });
  }
}
