// flights — departures in the United States in 2001 as a text: every airport is a document, its words are the airports
// that its flights go to. The data set comes with the npm package vega-datasets.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { parquetReadObjects } from "hyparquet";

export type Corpus = {
  /** The names of airports: of documents, and of words. */
  readonly documents: readonly string[];
  readonly words: readonly string[];
  /** Of each flight its document and its word, by their indexes in those lists. */
  readonly tokens: readonly { readonly document: number; readonly word: number }[];
};

/** The first `count` of three million. */
export async function readCorpus(count: number): Promise<Corpus> {
  const path = join(dirname(createRequire(import.meta.url).resolve("vega-datasets")), "../data/flights-3m.parquet");
  const bytes = readFileSync(path);
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer;
  const compressors = { ZSTD: (page: Uint8Array) => zstdDecompressSync(page) };
  const rows = await parquetReadObjects({ file, rowEnd: count, columns: ["origin", "destination"], compressors });
  const flights = rows as unknown as { readonly origin: string; readonly destination: string }[];
  const documents = [...new Set(flights.map(({ origin }) => origin))].sort();
  const words = [...new Set(flights.map(({ destination }) => destination))].sort();
  const [indexOfDocument, indexOfWord] = [documents, words].map((names) => new Map(names.map((name, index) => [name, index])));
  const tokens = flights.map(({ origin, destination }) => ({
    document: indexOfDocument!.get(origin)!,
    word: indexOfWord!.get(destination)!,
  }));
  return { documents, words, tokens };
}
