// Client of a worker, which answers questions in order.

import type { Files, Outline } from "./engine";
import type { Head, Reply } from "./message";
import type { Answer, Request } from "./worker";

/** Failure that the engine tells. */
export class Failure extends Error {}

export class Client {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (reply: Reply) => void; reject: (failure: Error) => void }>();
  #last = 0;

  constructor(script: string, module: WebAssembly.Module) {
    const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.#worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.#worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if (data.error !== undefined) {
        waiting?.reject(new Failure(data.error));
      } else {
        waiting?.resolve({ head: data.head!, arrays: data.arrays! });
      }
    });
    this.#worker.postMessage(module);
  }

  async open(path: string, text: string, files: Files, set: [string, string][]): Promise<Outline> {
    const { head } = await this.#send({ open: { path, text, files, set } });
    return head as unknown as Outline;
  }

  ask(question: Head): Promise<Reply> {
    return this.#send({ ask: question });
  }

  #send(request: Omit<Request, "id">): Promise<Reply> {
    this.#last += 1;
    const id = this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ...request });
    });
  }
}
