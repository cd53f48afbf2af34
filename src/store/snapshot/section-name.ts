// section-name — the names of the pieces of a parameter in a shard file. A chunk is a stretch of a parameter on one
// server: rows of a tensor, or rows of a table with keys in a range of parts. Each column of a chunk is one section, a
// safetensors tensor:
//
//   <parameter>/rows/<from>:<to>/<column>                 of a tensor: the rows from `from` to before `to`
//   <parameter>/parts/<from>:<to>/<ordinal>/<column>      of a table: rows of parts `from` to before `to`; the
//                                                         ordinal separates chunks of the same parts in one file
//
//   SectionName.N1. A name means one section: it is read from its end, so parameters may have any name, even with
//       slashes.

type RowsKey = { readonly kind: "rows"; readonly parameter: string; readonly from: number; readonly to: number };
type PartsKey = {
  readonly kind: "parts";
  readonly parameter: string;
  readonly from: number;
  readonly to: number;
  readonly ordinal: number;
};
export type ChunkKey = RowsKey | PartsKey;

const NUMBER = "(0|[1-9][0-9]{0,15})";
const ROWS = new RegExp(`^(.*)/rows/${NUMBER}:${NUMBER}$`, "su");
const PARTS = new RegExp(`^(.*)/parts/${NUMBER}:${NUMBER}/${NUMBER}$`, "su");
const COLUMN = /^[a-z][a-zA-Z0-9_-]{0,63}$/;

/** Whether a column may have this name. */
export function isColumnName(name: string): boolean {
  return COLUMN.test(name);
}

/** The name without its column: the same for all sections of a chunk, and for no other chunk of the file. */
export function chunkName(key: ChunkKey): string {
  const stretch = `${key.parameter}/${key.kind}/${key.from}:${key.to}`;
  return key.kind === "rows" ? stretch : `${stretch}/${key.ordinal}`;
}

export function sectionName(key: ChunkKey, column: string): string {
  return `${chunkName(key)}/${column}`;
}

/** Undefined if this is not the name of a section. */
export function parseSectionName(name: string): { readonly key: ChunkKey; readonly column: string } | undefined {
  const slash = name.lastIndexOf("/");
  const [chunk, column] = [name.slice(0, Math.max(slash, 0)), name.slice(slash + 1)];
  const key = rowsKey(chunk) ?? partsKey(chunk);
  return key !== undefined && isColumnName(column) && key.from < key.to ? { key, column } : undefined;
}

function rowsKey(chunk: string): ChunkKey | undefined {
  const match = ROWS.exec(chunk);
  if (match === null) return undefined;
  const [, parameter = "", from, to] = match;
  return { kind: "rows", parameter, from: Number(from), to: Number(to) };
}

function partsKey(chunk: string): ChunkKey | undefined {
  const match = PARTS.exec(chunk);
  if (match === null) return undefined;
  const [, parameter = "", from, to, ordinal] = match;
  return { kind: "parts", parameter, from: Number(from), to: Number(to), ordinal: Number(ordinal) };
}
