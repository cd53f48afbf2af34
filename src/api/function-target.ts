// function-target — where a function of the user's own is called: one server by its number, or the owner of a key.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";
import type { Route } from "../worker/router.ts";

/** Where a function of the user's own is called. */
export type FunctionTarget = { readonly server: number } | { readonly key: bigint };

/** Throws NO_ROUTE for a server that there is not, BAD_ARGUMENT for what is no target. */
export function routeOf(target: FunctionTarget, servers: readonly number[]): Route {
  if (typeof target === "object" && target !== null && "server" in target) {
    const { server } = target;
    if (servers.includes(server)) return { server };
    throw new WeighbridgeError("NO_ROUTE", `there are servers ${rangesOf(servers)}, and no server ${showValue(server)}`);
  }
  const key: unknown = target?.key;
  if (typeof key !== "bigint" || BigInt.asUintN(64, key) !== key) {
    const what = "{ server: its number } or { key: a bigint from 0 to 2^64 - 1 }";
    throw new WeighbridgeError("BAD_ARGUMENT", `a function is called at ${what}, not ${showValue(target)}`);
  }
  return { key };
}

function rangesOf(servers: readonly number[]): string {
  return servers.at(-1) === servers.length - 1 ? `0 to ${servers.length - 1}` : servers.join(", ");
}
