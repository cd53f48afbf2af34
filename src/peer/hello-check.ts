// hello-check — whether a node that dials us can be who it says it is, by what the roster tells. Pure. Its token is no proof against one that reads the
// network: links are neither encrypted nor authenticated.

import { WeighbridgeError } from "../base/errors.ts";
import type { Hello } from "../wire/hello.ts";
import { nameOf, rankOf, roleOf } from "../wire/node-id.ts";
import type { RosterView } from "../wire/roster.ts";

export type HelloRules = {
  /** Version 0: nobody has told us yet. */
  readonly roster: RosterView;
  readonly serverCount: number;
  readonly workerCount: number;
  /** False when nodes may have newer lives than the roster knows: on a scheduler that was restarted. */
  readonly isCertain: boolean;
};

/**
 * Throws NO_ROUTE for a node that is not in the job, and for an incarnation that it has not been given, or of which we have not heard yet; FENCED without the
 * token of the node of that incarnation. A token that is undefined is not asked for.
 */
export function checkGreeting(
  { node, incarnation, token }: Pick<Hello, "node" | "incarnation" | "token">,
  { roster, serverCount, workerCount, isCertain }: HelloRules,
): void {
  const entry = roster.nodes.find((candidate) => candidate.node === node);
  const isPlace = rankOf(node) < (roleOf(node) === "server" ? serverCount : workerCount);
  if (entry === undefined && (roster.version > 0 || !isPlace))
    // While we know of nobody, it may be our counts that are wrong: the node goes on, and waits for a scheduler that was started rightly.
    throw new WeighbridgeError("NO_ROUTE", `there is no node ${node} in this job`, { retryable: roster.version === 0 });
  if (entry?.incarnation === incarnation && token !== undefined && entry.token !== undefined && token !== entry.token) {
    const message = `this is not ${nameOf(node)} of incarnation ${incarnation}: its hello does not show the token that ${nameOf(node)} registered with`;
    throw new WeighbridgeError("FENCED", message);
  }
  if (entry === undefined || incarnation <= entry.incarnation || !isCertain) return;
  const message = `${nameOf(node)} says that it has incarnation ${incarnation}, but here incarnation ${entry.incarnation} is the newest known`;
  throw new WeighbridgeError("NO_ROUTE", message, { retryable: true });
}
