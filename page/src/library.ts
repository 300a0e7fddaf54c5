// The module and the scenarios inside the page: gzip in base64, so that the page needs nothing else and works from file://.

import type { Schema } from "./schema";
import { bundledOf, unpacked, type Bundled, type Stored } from "./stored";

export async function module(): Promise<WebAssembly.Module> {
  return WebAssembly.compile(await contents("module"));
}

export async function scenarios(): Promise<Bundled[]> {
  const text = new TextDecoder().decode(await contents("scenarios"));
  return bundledOf(JSON.parse(text) as Stored);
}

export async function schema(): Promise<Schema> {
  return JSON.parse(new TextDecoder().decode(await contents("schema"))) as Schema;
}

function contents(id: string): Promise<ArrayBuffer> {
  return unpacked(document.getElementById(id)!.textContent!);
}
