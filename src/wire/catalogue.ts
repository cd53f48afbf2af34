// catalogue — the messages by which nodes get the numbers of parameters from the scheduler, and report to a restarted
// one what they know (scheduler/catalogue.ts). A spec travels as its JSON text (store/parameter-spec.ts), unread here.

import { type Check, count, flag, list, object, optional, shortText } from "./json-body.ts";

/** Longer specs are refused: the scheduler keeps every one. */
const SPEC_LENGTH_MAX = 65_536;
const NAME_LENGTH_MAX = 256;
/** How much of the catalogue goes into one message. */
const PAGE_LENGTH_MAX = 262_144;
const ENTRY_LENGTH = 64;

/** A name of the catalogue. */
export type CatalogueEntry = {
  readonly name: string;
  /** Stands for the name in requests; 1, 2, 3 … */
  readonly number: number;
  /** Which parameter of this name it is, 1, 2, 3 …: a clear ends one, and the next that is made is the next edition. */
  readonly edition: number;
  /** Left out while nobody has made this edition. */
  readonly spec?: string | undefined;
};
const nameShape = shortText(NAME_LENGTH_MAX);
const specShape = shortText(SPEC_LENGTH_MAX);
const entryShape: Check<CatalogueEntry> = object({ name: nameShape, number: count, edition: count, spec: optional(specShape) });

/** What stands for a parameter from now on. */
export type ParameterNumber = { readonly number: number; readonly edition: number };
const numberShape: Check<ParameterNumber> = object({ number: count, edition: count });

/** All of these are made or opened, or none. `isNew` says of each whether this request made it. */
export type CatalogueOpenRequest = { readonly specs: readonly string[] };
export const catalogueOpenRequestShape: Check<CatalogueOpenRequest> = object({ specs: list(specShape) });

/** Numbers for names that are to be made later. */
export type CatalogueReserveRequest = { readonly names: readonly string[] };
export const catalogueReserveRequestShape: Check<CatalogueReserveRequest> = object({ names: list(nameShape) });

/** In the order of the request. */
export type CatalogueNumbers = { readonly parameters: readonly (ParameterNumber & { readonly isNew: boolean })[] };
export const catalogueNumbersShape: Check<CatalogueNumbers> = object({
  parameters: list((value, path) => ({ ...numberShape(value, path), ...object({ isNew: flag })(value, path) })),
});

/** What the name stands for now. */
export type CatalogueFindRequest = { readonly name: string };
export const catalogueFindRequestShape: Check<CatalogueFindRequest> = object({ name: nameShape });
/** Left out for an unknown name. */
export type CatalogueFound = { readonly entry?: CatalogueEntry | undefined };
export const catalogueFoundShape: Check<CatalogueFound> = object({ entry: optional(entryShape) });

/** This edition is cleared; without effect on a later one. */
export type CatalogueClearRequest = { readonly name: string; readonly edition: number };
export const catalogueClearRequestShape: Check<CatalogueClearRequest> = object({ name: nameShape, edition: count });

/** The parameters with numbers above `after`, as many as fit a message. */
export type CatalogueListRequest = { readonly after: number };
export const catalogueListRequestShape: Check<CatalogueListRequest> = object({ after: count });

export type CataloguePage = { readonly entries: readonly CatalogueEntry[]; readonly isLast: boolean };
export const cataloguePageShape: Check<CataloguePage> = object({ entries: list(entryShape), isLast: flag });

/** How many characters an entry may take in a message. */
export function entryLength({ name, spec = "" }: CatalogueEntry): number {
  return ENTRY_LENGTH + name.length + spec.length;
}

/** Cuts entries into pages that fit a message; one page at least. */
export function cataloguePages(entries: Iterable<CatalogueEntry>): CataloguePage[] {
  const pages = pagesOf(entries, entryLength);
  if (pages.length === 0) pages.push([]);
  return pages.map((page, i) => ({ entries: page, isLast: i === pages.length - 1 }));
}

/** Cuts what goes into messages into pages that fit one, unless a single item does not. */
export function pagesOf<T>(items: Iterable<T>, lengthOf: (item: T) => number): T[][] {
  const pages: T[][] = [];
  let room = 0;
  for (const item of items) {
    const length = lengthOf(item);
    if (length > room) {
      pages.push([]);
      room = PAGE_LENGTH_MAX;
    }
    pages.at(-1)?.push(item);
    room -= length;
  }
  return pages;
}
