// function-target — what a session may call, and where: one server by its number, or the owner of a key.

import type { WaitOptions } from "../base/deferred.ts";
import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { isContract, isWorkerFunction } from "../contracts/known-function.ts";
import { hashKey } from "../keys/hash-key.ts";
import { failedUpdate, notSent } from "../peer/unheard-update.ts";
import { numberedKey } from "../worker/key-lists.ts";
import type { Route } from "../worker/router/server-directory.ts";

/** Where a function of the user's own is called: on a server by its number, or on the owner of a key of tables. */
export type FunctionTarget =
  | {
      /** The rank of a server. */
      readonly server: number;
    }
  | {
      /** The server that owns this key, as tables place it. */
      readonly key: bigint | number | string;
    };

const CALL_OPTIONS: readonly string[] = ["priority", "scope", "into", "countedAs", ...WAIT_NAMES];
const NAMES: readonly string[] = ["server", "key"];

/** Throws BAD_ARGUMENT for what is no function of servers, and for options that a call cannot have. */
export function checkCall(fn: unknown, options: WaitOptions): void {
  if (isWorkerFunction(fn))
    throw badArgument(`${fn.name} is a function of workers, which servers call: a worker calls functions of servers`);
  if (!isContract(fn)) throw badArgument(`what is called is a function that psFunction() made, not ${showValue(fn)}`);
  try {
    checkWaitOptions(options, CALL_OPTIONS, "the options of a call");
  } catch (thrown) {
    throw fn.isUpdate ? notSent(thrown) : thrown;
  }
}

/** A failed call of a function that updates says what became of the update. */
export async function withFate<T>(fn: { readonly isUpdate: boolean }, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    throw fn.isUpdate ? failedUpdate(thrown) : thrown;
  }
}

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
  const named = names.length === 1 && name === "key" ? (target as { readonly key: unknown }).key : undefined;
  const key = typeof named === "string" ? hashKey(named) : numberedKey(named);
  if (key === undefined) {
    const unknown = names.find((other) => !NAMES.includes(other));
    const what = "{ server: its number } or { key: a whole number from 0 to 2^64 - 1, or a string }";
    throw badArgument(`a function is called at ${what}, not ${showValue(target)}${didYouMean(unknown, NAMES)}`);
  }
  return { key };
}

function rangesOf(servers: readonly number[]): string {
  return servers.at(-1) === servers.length - 1 ? `0 to ${servers.length - 1}` : servers.join(", ");
}
