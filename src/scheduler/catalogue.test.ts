// catalogue.test — Goal: names and numbers stay one to one through clears, restarts and full catalogues, and nobody
// is refused without the reason.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../base/random.ts";
import { specText as specOf } from "../testing/test-catalogues.ts";
import type { CatalogueEntry } from "../wire/catalogue.ts";
import {
  applyToCatalogue,
  CATALOGUE_BOUNDS,
  type Catalogue,
  type CatalogueDecision,
  type CatalogueRecord,
  clearParameter,
  emptyCatalogue,
  madeParameters,
  openParameters,
  recallEntry,
  reserveNumbers,
} from "./catalogue.ts";

/** A catalogue that carries out what is decided. */
class Book {
  catalogue: Catalogue = emptyCatalogue();
  readonly bounds;

  constructor(bounds = CATALOGUE_BOUNDS) {
    this.bounds = bounds;
  }

  apply(records: readonly CatalogueRecord[]): void {
    for (const record of records) this.catalogue = applyToCatalogue(this.catalogue, record);
  }

  #take({ records, parameters }: CatalogueDecision): CatalogueDecision["parameters"] {
    this.apply(records);
    return parameters;
  }

  open(...specs: readonly string[]): CatalogueDecision["parameters"] {
    return this.#take(openParameters(this.catalogue, specs, this.bounds));
  }

  reserve(...names: readonly string[]): CatalogueDecision["parameters"] {
    return this.#take(reserveNumbers(this.catalogue, names, this.bounds));
  }

  clear(name: string, edition: number): void {
    this.apply(clearParameter(this.catalogue, name, edition));
  }

  tell(entry: CatalogueEntry): string | undefined {
    const { record, conflict } = recallEntry(this.catalogue, entry);
    if (record !== undefined) this.apply([record]);
    return conflict;
  }

  numbers(): string[] {
    return [...this.catalogue.entries.values()].map(({ name, number, edition, spec }) => `${name} ${number}.${edition}${spec ? "" : " -"}`);
  }
}

test("names are numbered 1, 2, 3 as they are made, and opening one again gives the same number", () => {
  const book = new Book();
  assert.deepEqual(book.open(specOf("a"), specOf("b")), [
    { number: 1, edition: 1, isNew: true },
    { number: 2, edition: 1, isNew: true },
  ]);
  assert.deepEqual(book.open(specOf("b"), specOf("c")), [
    { number: 2, edition: 1, isNew: false },
    { number: 3, edition: 1, isNew: true },
  ]);
  assert.deepEqual(
    madeParameters(book.catalogue, 1).map(({ name }) => name),
    ["b", "c"],
  );
});

test("a parameter that is described differently is refused with the differences, and nothing of its request is made (Catalogue.C2)", () => {
  const book = new Book();
  book.open(specOf("a"));
  assert.throws(() => book.open(specOf("new"), specOf("a", [5])), { code: "SPEC_MISMATCH", message: /shape is \[4\] and \[5\]/ });
  assert.throws(() => book.open(specOf("twice"), specOf("twice", [5])), { code: "SPEC_MISMATCH" });
  assert.throws(() => book.open("no JSON"), { code: "BAD_REQUEST" });
  assert.deepEqual(book.numbers(), ["a 1.1"]);
});

test("a cleared name keeps its number, and may be described anew; a clear that comes late ends no later edition (Catalogue.C3)", () => {
  const book = new Book();
  book.open(specOf("a"));
  book.clear("a", 1);
  assert.deepEqual(book.numbers(), ["a 1.2 -"]);
  assert.deepEqual(book.open(specOf("a", [7])), [{ number: 1, edition: 2, isNew: true }]);
  book.clear("a", 1);
  book.clear("unknown", 1);
  assert.deepEqual(book.numbers(), ["a 1.2"]);
});

test("a reserved name has its number before anybody has made it", () => {
  const book = new Book();
  book.open(specOf("a"));
  assert.deepEqual(
    book.reserve("b", "a").map(({ number, edition }) => [number, edition]),
    [
      [2, 1],
      [1, 1],
    ],
  );
  assert.deepEqual(book.open(specOf("b")), [{ number: 2, edition: 1, isNew: true }]);
});

test("names and bytes are bounded: cleared names make room, the oldest first, then it is CATALOGUE_FULL (Catalogue.C4)", () => {
  for (const bounds of [
    { namesMax: 2, lengthMax: Infinity },
    { namesMax: 100, lengthMax: 2 * (64 + 1 + specOf("a").length) + 10 },
  ]) {
    const book = new Book(bounds);
    book.open(specOf("a"));
    book.open(specOf("b"));
    assert.throws(() => book.open(specOf("c")), { code: "CATALOGUE_FULL", message: /no room for "c".*clear parameters/ });
    book.clear("b", 1);
    book.clear("a", 1);
    book.open(specOf("c"));
    book.open(specOf("d"));
    assert.throws(() => book.open(specOf("e")), { code: "CATALOGUE_FULL" });
    book.clear("c", 1);
    assert.deepEqual(book.open(specOf("b")), [{ number: 5, edition: 1, isNew: true }], "a number is never given again (Catalogue.C1)");
    assert.equal(
      book.catalogue.length,
      [...book.catalogue.entries.values()].reduce((sum, { name, spec = "" }) => sum + 64 + name.length + spec.length, 0),
    );
  }
});

test("what nodes tell in any order gives the same catalogue, and the next number is above all of them (Catalogue.C1, Catalogue.C3)", () => {
  const told: CatalogueEntry[] = [
    { name: "a", number: 1, edition: 1, spec: specOf("a") }, // of a worker that has not heard of the clear
    { name: "a", number: 1, edition: 2 },
    { name: "a", number: 1, edition: 2, spec: specOf("a", [9]) },
    { name: "b", number: 7, edition: 1, spec: specOf("b") },
    { name: "b", number: 7, edition: 2 },
    { name: "c", number: 3, edition: 1, spec: specOf("c") },
  ];
  for (let seed = 1; seed <= 50; seed++) {
    const random = new Random(seed);
    const book = new Book();
    const rest = [...told];
    while (rest.length > 0) assert.equal(book.tell(rest.splice(random.below(rest.length), 1)[0] as CatalogueEntry), undefined);
    assert.deepEqual(book.numbers().sort(), ["a 1.2", "b 7.2 -", "c 3.1"], `seed ${seed}`);
    assert.deepEqual(book.open(specOf("d")), [{ number: 8, edition: 1, isNew: true }], `seed ${seed}`);
  }
});

test("what two nodes tell and cannot both be true is a conflict that names both", () => {
  const book = new Book();
  book.tell({ name: "a", number: 1, edition: 1, spec: specOf("a") });
  assert.match(book.tell({ name: "b", number: 1, edition: 1, spec: specOf("b") }) ?? "", /number 1 is that of "a" and of "b"/);
  assert.match(book.tell({ name: "a", number: 2, edition: 1, spec: specOf("a") }) ?? "", /"a" has the numbers 1 and 2/);
  assert.match(book.tell({ name: "a", number: 1, edition: 1, spec: specOf("a", [5]) }) ?? "", /"a" is described differently: shape/);
  assert.deepEqual(book.numbers(), ["a 1.1"]);
});
