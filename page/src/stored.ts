// Scenarios as build.mjs stores them in the page.

import type { Files } from "./engine";

/** Scenario with all files that it names, by path relative to the scenario. */
export interface Bundled {
  name: string;
  title: string;
  path: string;
  text: string;
  files: Files;
}

/** Contents of the element `scenarios`: texts and base64 by path, and the paths of each scenario's files. */
export interface Stored {
  texts: Record<string, string>;
  binary: Record<string, string>;
  scenarios: { path: string; files: Record<string, string> }[];
}

export function bundledOf(stored: Stored): Bundled[] {
  const contents = (path: string): Uint8Array =>
    path in stored.texts ? new TextEncoder().encode(stored.texts[path]) : decoded(stored.binary[path]!);
  return stored.scenarios.map(({ path, files }) => {
    const text = stored.texts[path]!;
    const title = /^title = "(.*)"$/m.exec(text)?.[1] ?? path;
    const name = path.split("/").at(-1)!.replace(/\.toml$/, "");
    const given = Object.entries(files).map(([relative, full]) => [relative, contents(full)] as const);
    return { name, title, path: `${name}.toml`, text, files: Object.fromEntries(given) };
  });
}

export function decoded(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function encoded(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) {
    binary += String.fromCharCode(byte);
  }
  return btoa(binary);
}

/** Returns what comes out of a stream that compresses or decompresses bytes. */
export function through(bytes: Uint8Array, stream: GenericTransformStream): Promise<ArrayBuffer> {
  return new Response(new Blob([bytes as BlobPart]).stream().pipeThrough(stream)).arrayBuffer();
}

/** Returns the bytes of a gzip in base64. */
export function unpacked(base64: string): Promise<ArrayBuffer> {
  return through(decoded(base64.trim()), new DecompressionStream("gzip"));
}
