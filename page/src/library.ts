// The module and the scenarios inside the page: gzip in base64, so that the page needs nothing else and works from file://.

import type { Schema } from "./schema";
import { bundledOf, decoded, type Bundled, type Stored } from "./stored";

export async function module(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await unpacked("module"));
}

export async function scenarios(): Promise<Bundled[]> {
  const text = new TextDecoder().decode(await unpacked("scenarios"));
  return bundledOf(JSON.parse(text) as Stored);
}

export async function schema(): Promise<Schema> {
  return JSON.parse(new TextDecoder().decode(await unpacked("schema"))) as Schema;
}

async function unpacked(id: string): Promise<ArrayBuffer> {
  const packed = decoded(document.getElementById(id)!.textContent!.trim());
  const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
