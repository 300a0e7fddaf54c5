// Asks an engine whose module always traps, twice; prints what each question has told.
//
// usage: node trap.mjs

import { Engine } from "../src/engine";

/** Module with a memory and the exports of the engine, of which `ask` is unreachable and the others return 0. */
const names = ["allocate", "ask", "reply_len", "panic_message", "panic_len"];
const text = (name: string): number[] => [name.length, ...new TextEncoder().encode(name)];
const section = (id: number, ...bytes: number[]): number[] => [id, bytes.length, ...bytes];
const I32 = 0x7f, RETURNS = 1;
const types = [3, 0x60, 1, I32, RETURNS, I32, 0x60, 2, I32, I32, RETURNS, I32, 0x60, 0, RETURNS, I32];
const exports = names.flatMap((name, at) => [...text(name), 0, at]);
const zero = [4, 0, 0x41, 0, 0x0b], unreachable = [3, 0, 0x00, 0x0b];
const module = new Uint8Array([
  ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
  ...section(1, ...types),
  ...section(3, 5, 0, 1, 2, 2, 2),
  ...section(5, 1, 0, 1),
  ...section(7, 6, ...exports, ...text("memory"), 2, 0),
  ...section(10, 5, ...zero, ...unreachable, ...zero, ...zero, ...zero),
]);
const engine = new Engine(new WebAssembly.Module(module));
for (const variant of ["one", "two"]) {
  try {
    engine.ask({ ask: "run", variant });
  } catch (failure) {
    console.log(`${(failure as Error).constructor.name}: ${(failure as Error).message}`);
  }
}
