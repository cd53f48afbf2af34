// function-target — which server a function of the user's own is called on: one by its number, or the owner of a key.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import { type Placement, partOf } from "../keys/placement.ts";

/** Where a function of the user's own is called. */
export type FunctionTarget = { readonly server: number } | { readonly key: bigint };

/** Throws NO_ROUTE for a server that there is not, BAD_ARGUMENT for what is no target. */
export function serverOf(target: FunctionTarget, placement: Placement): number {
  const { length: serverCount } = placement.servers;
  if (typeof target === "object" && target !== null && "server" in target) {
    const { server } = target;
    if (Number.isInteger(server) && server >= 0 && server < serverCount) return server;
    throw new WeighbridgeError("NO_ROUTE", `there are servers 0 to ${serverCount - 1}, and no server ${showValue(server)}`);
  }
  const key: unknown = target?.key;
  if (typeof key !== "bigint" || BigInt.asUintN(64, key) !== key) {
    const what = "{ server: its number } or { key: a bigint from 0 to 2^64 - 1 }";
    throw new WeighbridgeError("BAD_ARGUMENT", `a function is called at ${what}, not ${showValue(target)}`);
  }
  return placement.ownerOf(partOf(Number(key & 0xffff_ffffn), Number((key >> 32n) & 0xffff_ffffn)));
}
