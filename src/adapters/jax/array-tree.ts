// array-tree — pytrees as jax-js has them: arrays in lists and plain objects, however deep. Extracts the arrays, names
// them by their path from the root ("layers/0/kernel"; a single array is "value"), and builds the tree from others. It
// never consumes an array.

import { badArgument } from "../../base/errors.ts";

/** What this adapter needs of an array of jax-js, by shape alone. */
export interface JaxArray {
  readonly shape: readonly number[];
  readonly dtype: string;
  /** A copy of its values; consumes the array, as everything in jax-js does. */
  data(): Promise<unknown>;
}

/** Lists and objects of a tree, with the index of each array in place of it. */
export type TreeStructure = number | readonly TreeStructure[] | { readonly [field: string]: TreeStructure };

export type FlatTree = {
  readonly names: readonly string[];
  /** In the order of `names`, which is that of the tree's fields. */
  readonly arrays: readonly JaxArray[];
  readonly structure: TreeStructure;
};

/** Throws BAD_ARGUMENT for a leaf that is no array, and for two arrays of one name. */
export function flattenTree(tree: unknown): FlatTree {
  const found = new Map<string, JaxArray>();
  const structure = collect(tree, "", found);
  return { names: [...found.keys()], arrays: [...found.values()], structure };
}

/** A tree of this structure with these arrays in it. */
export function buildTree(structure: TreeStructure, arrays: readonly JaxArray[]): unknown {
  if (typeof structure === "number") return arrays[structure];
  if (Array.isArray(structure)) return structure.map((branch: TreeStructure) => buildTree(branch, arrays));
  return Object.fromEntries(Object.entries(structure).map(([field, branch]) => [field, buildTree(branch, arrays)]));
}

function collect(tree: unknown, name: string, found: Map<string, JaxArray>): TreeStructure {
  const below = (field: string | number): string => (name === "" ? `${field}` : `${name}/${field}`);
  if (isArray(tree)) {
    const arrayName = name === "" ? "value" : name;
    if (found.has(arrayName)) throw badArgument(`two arrays of the tree are ${JSON.stringify(arrayName)}`);
    return found.set(arrayName, tree).size - 1;
  }
  if (Array.isArray(tree)) return tree.map((branch, i) => collect(branch, below(i), found));
  if (isPlainObject(tree)) {
    return Object.fromEntries(Object.entries(tree).map(([field, branch]) => [field, collect(branch, below(field), found)]));
  }
  throw badArgument(`${name === "" ? "the tree" : name} is no array of jax-js, no list and no plain object`);
}

function isArray(tree: unknown): tree is JaxArray {
  if (typeof tree !== "object" || tree === null) return false;
  const { shape, dtype, data } = tree as Partial<JaxArray>;
  return Array.isArray(shape) && typeof dtype === "string" && typeof data === "function";
}

function isPlainObject(tree: unknown): tree is object {
  return typeof tree === "object" && tree !== null && Object.getPrototypeOf(tree) === Object.prototype;
}
