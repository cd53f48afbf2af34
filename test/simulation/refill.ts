// refill — a standby that comes later, for tests of what it knows once it leads.

import type { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import type { RosterEntry } from "../../src/wire/roster.ts";

const LOOK_AGAIN_MS = 5;

/** The standby of a server is killed, and another one comes; resolves when that one has been filled. */
export async function refill(cluster: SimCluster, rank: number): Promise<void> {
  const standby = idOf("standby", rank);
  const entry = (): RosterEntry | undefined => cluster.scheduler.roster.nodes.find(({ node }) => node === standby);
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise<void>((resolve) => cluster.clock.after(LOOK_AGAIN_MS, resolve));
  };
  cluster.kill(standby);
  await until(() => entry()?.state !== "alive");
  await cluster.startNode(standby);
  await until(() => entry()?.state === "alive" && entry()?.isFilling !== true);
}
