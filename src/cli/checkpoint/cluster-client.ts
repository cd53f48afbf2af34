// cluster-client — the servers of a running cluster, as the command line reaches them: it is no node, so the scheduler hands on what it asks.

import type { CheckpointServers } from "../../api/checkpoint.ts";
import type { Clock } from "../../base/clock.ts";
import { joinBytes } from "../../base/join-bytes.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { relayCall } from "../../contracts/relay.ts";
import { callFunction } from "../../peer/call-function.ts";
import { Peer } from "../../peer/peer.ts";
import { PlainReadBuffers } from "../../peer/plain-memory.ts";
import type { Address, Transport } from "../../transport/transport.ts";
import { SCHEDULER_ID } from "../../wire/node-id.ts";
import { serverRanks } from "../../wire/roster.ts";
import { askStatus } from "../status-client.ts";

export type ClusterRequest = {
  readonly address: Address;
  /** For the scheduler to be found. */
  readonly findMs: number;
  /** For each request; a checkpoint may take long. */
  readonly deadlineMs: number | undefined;
  readonly transport: Transport;
  readonly clock: Clock;
};

/** Runs `use` with a way to the servers. Throws SCHEDULER_UNREACHABLE, and what `use` throws. */
export async function withServers<T>(request: ClusterRequest, use: (servers: CheckpointServers) => Promise<T>): Promise<T> {
  const { address, findMs, deadlineMs, transport, clock } = request;
  const status = await askStatus({ address, deadlineMs: findMs, transport, clock });
  const peer = new Peer({ transport, clock, log: SILENT_LOG, readBuffers: new PlainReadBuffers(), connectDeadlineMs: findMs });
  try {
    const scheduler = peer.dial(SCHEDULER_ID, address, 0);
    return await use({
      servers: serverRanks(status),
      call: async (server, fn, request) => {
        const call = { server, asker: "", name: fn.name, signature: fn.signatureHash };
        const { chunks } = fn.request.encode(request);
        const { response } = await callFunction(scheduler, relayCall, { ...call, request: joinBytes(chunks) }, { clock, deadlineMs });
        return fn.response.decode(response, 0, response.length);
      },
    });
  } finally {
    await peer.close();
  }
}
