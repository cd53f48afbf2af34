// item-lists — the lists that pushAll or pullAll was given. A training loop gives the same ones in every step: a list
// that comes again, with the same items in it, is not checked item by item a second time, and nothing is allocated for
// it.
//
// Invariants:
//   ItemLists.I1. A request that was made before is used again only if the list, each of its items and every field of
//       them are the same. What can change besides, `recheck` looks at each time: data may have been freed.
//   ItemLists.I2. No key is in a list twice: a device pushes a key once in a round, and has one pull of it.
//   ItemLists.I3. A list that comes only once costs no more than its checks: requests are kept from the second time on.

import { badArgument, showValue } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";

type Keyed = { readonly key: number };

export type ItemListsOptions<Item extends Keyed, Request> = {
  /** The fields of an item. */
  readonly names: readonly string[];
  /** For messages: "the items of pushAll". */
  readonly what: string;
  /** Checks an item of the device at this position. Throws BAD_ARGUMENT and the like. */
  readonly requestOf: (item: Item, position: number) => Request;
  /** Whether two items have the same in every field. */
  readonly isSame: (item: Item, other: Item) => boolean;
  /** Throws if what was pushed or pulled into before cannot be any more. */
  readonly recheck: (request: Request) => void;
  /** While it is the same number, `recheck` would not throw. */
  readonly epoch: () => number | undefined;
};

type CheckedList<Item extends Keyed, Request> = {
  readonly position: number;
  readonly items: readonly Item[];
  /** Their fields as they were. */
  readonly copies: readonly Item[];
  readonly requests: readonly Request[];
  /** When all were checked. */
  epoch: number | undefined;
};

export class ItemLists<Item extends Keyed, Request> {
  readonly #options: ItemListsOptions<Item, Request>;
  readonly #seen = new WeakSet<readonly Item[]>();
  readonly #checked = new WeakMap<readonly Item[], CheckedList<Item, Request>>();

  constructor(options: ItemListsOptions<Item, Request>) {
    this.#options = options;
  }

  requestsOf(items: readonly Item[], position: number): readonly Request[] {
    const { names, what, requestOf } = this.#options;
    if (!Array.isArray(items)) throw badArgument(`${what} are a list, not ${showValue(items)}`);
    const list: readonly Item[] = items;
    const known = this.#checked.get(list);
    if (known?.position === position && this.#isUnchanged(list, known)) return known.requests;
    for (const item of list) checkOptions(item, names, what);
    const requests = list.map((item) => requestOf(item, position));
    checkOnce(list, what);
    if (this.#seen.has(list))
      // ItemLists.I3
      this.#checked.set(list, { position, items: [...list], copies: list.map((item) => ({ ...item })), requests, epoch: undefined });
    else this.#seen.add(list);
    return requests;
  }

  /** ItemLists.I1 */
  #isUnchanged(list: readonly Item[], known: CheckedList<Item, Request>): boolean {
    const { isSame, recheck, epoch } = this.#options;
    const { items, copies, requests } = known;
    if (list.length !== items.length) return false;
    for (let i = 0; i < items.length; i++) {
      const item = list[i] as Item;
      if (item !== items[i] || !isSame(item, copies[i] as Item)) return false;
    }
    const now = epoch();
    if (now !== undefined && now === known.epoch) return true;
    for (const request of requests) recheck(request);
    known.epoch = now;
    return true;
  }
}

/** ItemLists.I2 */
function checkOnce(list: readonly Keyed[], what: string): void {
  if (new Set(list.map(({ key }) => key)).size === list.length) return;
  const twice = list.find(({ key }, i) => list.findIndex((other) => other.key === key) < i);
  throw badArgument(`${what} have key ${twice?.key} twice`);
}
