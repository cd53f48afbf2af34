// catalogue — the parameters of a job as the scheduler knows them: name → number, edition, spec. Pure: decisions are
// records, which scheduler-state.ts applies. Not the parameters themselves: the servers hold those, and a parameter
// that is made is used without the scheduler.
//
//   unknown ── open ──► made (edition 1) ── clear ──► cleared ── open ──► made (edition 2) ── …
//      └── reserve ──► reserved ── open ──► made (edition 1)
//
// A name keeps its number through all of them, so handles of a cleared parameter go on with the next.
//
// Invariants:
//   Catalogue.C1. No two names have one number, and a number that was given to one name is never given to
//       another, not even after a restart.
//   Catalogue.C2. A name that is made has one spec. A request that describes it differently is refused with the
//       differences, and changes nothing.
//   Catalogue.C3. An edition of a name never falls. A clear ends the edition that it names, never a later one.
//   Catalogue.C4. Names and bytes are bounded. Names that are cleared or reserved make room, the oldest first,
//       before anybody is refused.

import { WeighbridgeError } from "../base/errors.ts";
import { decodeParameterSpec, specDifferences } from "../store/parameter-spec.ts";
import { type CatalogueEntry, type CatalogueNumbers, entryLength } from "../wire/catalogue.ts";

const NAMES_MAX = 65_536;
const LENGTH_MAX = 64 * 1024 * 1024;
/** Numbers are u32 in requests. */
const NUMBER_MAX = 2 ** 32 - 2;

export type Catalogue = {
  /** In the order in which they were last made, cleared or reserved. */
  readonly entries: ReadonlyMap<string, CatalogueEntry>;
  readonly names: ReadonlyMap<number, string>;
  /** The highest number that was ever given. */
  readonly highest: number;
  /** Characters of all entries. */
  readonly length: number;
};

export type CatalogueRecord =
  /** The name is as this says from now on. */
  | ({ readonly kind: "parameter" } & CatalogueEntry)
  /** Numbers up to this one were given. */
  | { readonly kind: "highest"; readonly number: number }
  /** The name is dropped, to make room. */
  | { readonly kind: "dropped"; readonly name: string };

export type CatalogueBounds = { readonly namesMax: number; readonly lengthMax: number };
export const CATALOGUE_BOUNDS: CatalogueBounds = { namesMax: NAMES_MAX, lengthMax: LENGTH_MAX };

export type CatalogueDecision = CatalogueNumbers & { readonly records: readonly CatalogueRecord[] };

export function emptyCatalogue(): Catalogue {
  return { entries: new Map(), names: new Map(), highest: 0, length: 0 };
}

/**
 * Takes the catalogue over: its maps change in place, since copying them for each of thousands of parameters would
 * take seconds.
 */
export function applyToCatalogue(catalogue: Catalogue, record: CatalogueRecord): Catalogue {
  const entries = catalogue.entries as Map<string, CatalogueEntry>;
  const names = catalogue.names as Map<number, string>;
  if (record.kind === "highest") return { ...catalogue, highest: Math.max(catalogue.highest, record.number) };
  const before = entries.get(record.name);
  let length = catalogue.length - (before === undefined ? 0 : entryLength(before));
  entries.delete(record.name);
  if (before !== undefined) names.delete(before.number);
  if (record.kind === "dropped") return { ...catalogue, length };
  const { kind: _kind, ...entry } = record;
  entries.set(entry.name, entry);
  names.set(entry.number, entry.name);
  length += entryLength(entry);
  return { entries, names, length, highest: Math.max(catalogue.highest, entry.number) };
}

/**
 * Makes or opens all of these parameters, or none. Throws SPEC_MISMATCH (Catalogue.C2), CATALOGUE_FULL (Catalogue.C4),
 * BAD_REQUEST, BAD_ARGUMENT.
 */
export function openParameters(catalogue: Catalogue, specs: readonly string[], bounds: CatalogueBounds): CatalogueDecision {
  const named = specs.map((spec) => ({ name: decodeParameterSpec(spec).name, spec }));
  for (const { name, spec } of named) requireSameSpec(catalogue.entries.get(name), spec);
  return decide(catalogue, named, bounds);
}

/** Numbers for these names; what is made already stays as it is. Throws CATALOGUE_FULL (Catalogue.C4). */
export function reserveNumbers(catalogue: Catalogue, names: readonly string[], bounds: CatalogueBounds): CatalogueDecision {
  return decide(
    catalogue,
    names.map((name) => ({ name, spec: undefined })),
    bounds,
  );
}

/** Catalogue.C3 */
export function clearParameter(catalogue: Catalogue, name: string, edition: number): readonly CatalogueRecord[] {
  const entry = catalogue.entries.get(name);
  if (entry?.spec === undefined || entry.edition !== edition) return [];
  return [{ kind: "parameter", name, number: entry.number, edition: edition + 1 }];
}

/**
 * What a node reports of a name that it knows from an earlier scheduler, beside what others reported; `conflict` if
 * both cannot be true (Catalogue.C1, Catalogue.C2).
 */
export function recallEntry(catalogue: Catalogue, told: CatalogueEntry): { readonly record?: CatalogueRecord; readonly conflict?: string } {
  const known = catalogue.entries.get(told.name);
  const other = catalogue.names.get(told.number);
  if (other !== undefined && other !== told.name)
    return { conflict: `number ${told.number} is that of ${JSON.stringify(other)} and of ${JSON.stringify(told.name)}` };
  if (known !== undefined && known.number !== told.number)
    return { conflict: `${JSON.stringify(told.name)} has the numbers ${known.number} and ${told.number}` };
  if (known !== undefined && known.edition === told.edition && known.spec !== undefined && told.spec !== undefined) {
    const differences = differencesOf(known.spec, told.spec);
    return differences.length === 0 ? {} : { conflict: `${JSON.stringify(told.name)} is described differently: ${differences.join("; ")}` };
  }
  const isNews = known === undefined || told.edition > known.edition || (told.edition === known.edition && told.spec !== undefined);
  return isNews ? { record: { kind: "parameter", ...told } } : {};
}

/** Those that are made, with numbers above `after`, by number. */
export function madeParameters({ entries }: Catalogue, after: number): readonly CatalogueEntry[] {
  return [...entries.values()].filter(({ number, spec }) => number > after && spec !== undefined).sort((a, b) => a.number - b.number);
}

type Wanted = { readonly name: string; readonly spec: string | undefined };

function decide(catalogue: Catalogue, wanted: readonly Wanted[], bounds: CatalogueBounds): CatalogueDecision {
  const decided = new Map<string, CatalogueEntry>();
  const numbers: CatalogueNumbers["parameters"][number][] = [];
  let highest = catalogue.highest;
  for (const { name, spec } of wanted) {
    const known = decided.get(name) ?? catalogue.entries.get(name);
    const isNew = known?.spec === undefined && spec !== undefined;
    const entry = known ?? { name, number: ++highest, edition: 1 };
    if (isNew || known === undefined) decided.set(name, spec === undefined ? entry : { ...entry, spec });
    else requireSameSpec(known, spec);
    numbers.push({ number: entry.number, edition: entry.edition, isNew });
  }
  if (highest > NUMBER_MAX) throw new WeighbridgeError("CATALOGUE_FULL", `all ${NUMBER_MAX} numbers of parameters were given`);
  const dropped = roomFor(catalogue, decided, bounds, new Set(wanted.map(({ name }) => name)));
  const made = [...decided.values()].map((entry): CatalogueRecord => ({ kind: "parameter", ...entry }));
  return { records: [...dropped, ...made], parameters: numbers };
}

/** Catalogue.C4: what has to be dropped. */
function roomFor(
  catalogue: Catalogue,
  decided: ReadonlyMap<string, CatalogueEntry>,
  { namesMax, lengthMax }: CatalogueBounds,
  wanted: ReadonlySet<string>,
): CatalogueRecord[] {
  let [nameCount, length] = [catalogue.entries.size, catalogue.length];
  for (const entry of decided.values()) {
    const before = catalogue.entries.get(entry.name);
    if (before === undefined) nameCount++;
    length += entryLength(entry) - (before === undefined ? 0 : entryLength(before));
  }
  const isFull = (): boolean => nameCount > namesMax || length > lengthMax;
  const dropped: CatalogueRecord[] = [];
  if (!isFull()) return dropped;
  for (const entry of catalogue.entries.values()) {
    if (!isFull()) break;
    if (entry.spec !== undefined || wanted.has(entry.name)) continue;
    dropped.push({ kind: "dropped", name: entry.name });
    nameCount--;
    length -= entryLength(entry);
  }
  if (!isFull()) return dropped;
  const limit = `at most ${namesMax} names and ${lengthMax} characters of names and specs`;
  const [name = ""] = decided.keys();
  const message = `the scheduler has no room for ${JSON.stringify(name)}: its catalogue has ${limit}, and ${catalogue.entries.size} names; clear parameters that are not used`;
  throw new WeighbridgeError("CATALOGUE_FULL", message);
}

function requireSameSpec(known: CatalogueEntry | undefined, spec: string | undefined): void {
  if (known?.spec === undefined || spec === undefined) return;
  const differences = differencesOf(known.spec, spec);
  if (differences.length === 0) return;
  throw new WeighbridgeError(
    "SPEC_MISMATCH",
    `${known.name} is there already, and described differently (there and here): ${differences.join("; ")}`,
  );
}

function differencesOf(one: string, other: string): readonly string[] {
  return one === other ? [] : specDifferences(decodeParameterSpec(one), decodeParameterSpec(other));
}
