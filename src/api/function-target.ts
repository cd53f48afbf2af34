// function-target — where a function of the user's own is called: one server by its number, or the owner of a key.

import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import type { Route } from "../worker/router/server-directory.ts";

/** Where a function of the user's own is called. */
export type FunctionTarget = { readonly server: number } | { readonly key: bigint };

const NAMES: readonly string[] = ["server", "key"];

/** Throws NO_ROUTE for a server that there is not, BAD_ARGUMENT for what is no target. */
export function routeOf(target: FunctionTarget, servers: readonly number[]): Route {
  const names = typeof target === "object" && target !== null ? Object.keys(target) : [];
  const [name] = names;
  if (names.length === 1 && name === "server") {
    const { server } = target as { readonly server: number };
    if (servers.includes(server)) return { server };
    throw new WeighbridgeError("NO_ROUTE", `there are servers ${rangesOf(servers)}, and no server ${showValue(server)}`);
  }
  // Of two targets one would be forgotten.
  const key = names.length === 1 && name === "key" ? (target as { readonly key: unknown }).key : undefined;
  if (typeof key !== "bigint" || BigInt.asUintN(64, key) !== key) {
    const unknown = names.find((other) => !NAMES.includes(other));
    const what = "{ server: its number } or { key: a bigint from 0 to 2^64 - 1 }";
    throw badArgument(`a function is called at ${what}, not ${showValue(target)}${didYouMean(unknown, NAMES)}`);
  }
  return { key };
}

function rangesOf(servers: readonly number[]): string {
  return servers.at(-1) === servers.length - 1 ? `0 to ${servers.length - 1}` : servers.join(", ");
}
