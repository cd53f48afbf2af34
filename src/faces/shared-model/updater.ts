// updater — an updater of the model (mshadow-ps: IModelUpdater): what the sum of a round does to the weights. Users
// implement it; the model calls it in the thread that created the model.

import type { RowArray, RowElement } from "../../kernel/row-element.ts";

/** An updater that runs in this process. */
export interface Updater<E extends RowElement = RowElement> {
  /** Every setParam of the model that the model itself has no use for, before `initUpdater`. */
  setParam?(name: string, value: string): void;
  /** Once, within `init`: the rank of this process (0 for "local") and what followed it on the command line. */
  initUpdater?(rank: number, args: readonly string[]): void | Promise<void>;
  /** Once for each key, however many devices call initKey: fills the weights, which are 0 so far. */
  initModel(key: number, weights: RowArray<E>): void | Promise<void>;
  /** Once for each round of a key: changes the weights by the sum of what the devices pushed. Keeps neither array. */
  update(key: number, weights: RowArray<E>, gradient: RowArray<E>): void | Promise<void>;
}
