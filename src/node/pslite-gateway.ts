// pslite-gateway — the gateway to ps-lite's programs over sockets, as a configuration describes it. What it does is
// pslite/gateway.ts.

import { PsliteGateway } from "../pslite/gateway.ts";
import { type NodeConfig, tcpAddress } from "./config/node-config.ts";
import type { Surroundings, TransportOptions } from "./process-node.ts";
import { formatTcpAddress } from "./transport/socket-address.ts";
import { SocketTransport } from "./transport/socket-transport.ts";

/**
 * A message there is one message: nothing urgent can pass the rest of a long one, so a server hands it over in larger
 * pieces than our own protocol's blocks, and its node is not kept from asking for the next one in the middle. It saves
 * some of the system's time for each long pull. A worker's pushes are read by a server of ours while they come: there
 * smaller pieces are better, which are still in a cache then.
 */
const WRITE_BYTES_MAX = { server: 2 * 1024 * 1024, worker: 256 * 1024, scheduler: 1024 * 1024 };
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;

/**
 * What a node needs instead of our own transport: every role listens, and what is lost is sent again by the gateway.
 */
export function psliteOptions(config: NodeConfig, { clock, log, loop, boundSendBuffer }: Surroundings): TransportOptions {
  const { role, serverCount, workerCount, schedulerHost, schedulerPort, host, port, faults, resendTimeoutMs } = config;
  const schedulerAddress = formatTcpAddress(schedulerHost, schedulerPort);
  // A worker of ps-lite has several threads that want the core on which a server of ours would stay awake: there its
  // long pulls became slower. So a server stays awake for long pushes only.
  const transport = new SocketTransport({
    clock,
    log,
    loop: role === "scheduler" ? undefined : loop,
    isSleepy: role === "server",
    boundSendBuffer,
  });
  const gateway = new PsliteGateway({
    transport,
    clock,
    log,
    role,
    serverCount,
    workerCount,
    schedulerAddress,
    incarnation: Date.now(),
    startTimeoutMs: config.startTimeoutMs,
    isLocal: config.transport === "unix",
    heartbeatIntervalMs: config.heartbeatIntervalMs,
    heartbeatTimeoutMs: config.heartbeatTimeoutMs,
    resendTimeoutMs,
    dropPercent: faults.dropPercent,
    seed: faults.seed,
  });
  const listenAddress = formatTcpAddress(host, role === "scheduler" ? schedulerPort : port);
  return {
    transport,
    gateway,
    schedulerAddress: role === "scheduler" ? listenAddress : schedulerAddress,
    listenAddress,
    advertise: (bound) => tcpAddress(config.advertiseHost, Number(bound.slice(bound.lastIndexOf(":") + 1))),
    resendTimeoutMs: 0,
    faults: undefined,
    limits: {
      queuedMax: config.outboxMessagesMax,
      inFlightBytesMax: config.outboxBytesMax,
      writeBytesMax: WRITE_BYTES_MAX[role],
      answerBytesMax: ANSWER_BYTES_MAX,
    },
  };
}
