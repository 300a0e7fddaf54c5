// Messages between a page and the engine, as crates/page/src/message.rs describes them.

export type Values = Float64Array | Uint32Array | Uint8Array;

/** JSON object of a message. */
export type Head = Record<string, unknown>;

/** Message from the engine: its JSON object, and its arrays by name. */
export interface Reply {
  head: Head;
  arrays: Record<string, Values>;
}

const LEN = 4;
const ALIGNMENT = 8;
const TYPES = { f64: Float64Array, u32: Uint32Array, u8: Uint8Array } as const;

/** Returns the bytes of a question, with the bytes of its arrays behind it. */
export function encode(head: Head, arrays: Uint8Array = new Uint8Array()): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(head));
  const begin = aligned(LEN + text.length);
  const bytes = new Uint8Array(begin + arrays.length);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, LEN);
  bytes.set(arrays, begin);
  return bytes;
}

/** Returns the message that `buffer` holds; its arrays are views of the buffer. */
export function decode(buffer: ArrayBuffer): Reply {
  const len = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, LEN, len))) as Head;
  const begin = aligned(LEN + len);
  const described = head["arrays"] as Record<string, [keyof typeof TYPES, number, number]>;
  delete head["arrays"];
  const arrays: Record<string, Values> = {};
  for (const [name, [type, offset, count]] of Object.entries(described)) {
    arrays[name] = new TYPES[type](buffer, begin + offset, count);
  }
  return { head, arrays };
}

function aligned(offset: number): number {
  return Math.ceil(offset / ALIGNMENT) * ALIGNMENT;
}
