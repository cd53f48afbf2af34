// The transport suite over every transport there is.

import { setImmediate } from "node:timers/promises";
import { SILENT_LOG } from "../../src/base/log.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { sharedMemory } from "../../src/node/transport/shared-memory.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { SimNetwork } from "../../src/testing/sim-network.ts";
import { MemoryHub, MemoryTransport } from "../../src/transport/memory-transport.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { SharedTransport } from "./shared-transport.ts";
import type { TransportKind } from "./transport-bench.ts";
import { testTransport } from "./transport-suite.ts";

const drive = async (body: Promise<void>): Promise<void> => await body;

const TCP: TransportKind = {
  name: "tcp",
  badAddresses: ["tcp://host", "tcp://host:65536", "tcp://:1", "tcp://::1:80", "tcp://user@host:1", "tcp://host:1/path", "memory://name"],
  tellsAbruptEnds: true,
  open(_context, sharedMemory) {
    const transport = new SocketTransport({ clock: realClock(), sharedMemory });
    return { listening: transport, connecting: transport, freeAddress: () => "tcp://127.0.0.1:0", drive };
  },
};

const UNIX: TransportKind = {
  name: "unix",
  badAddresses: ["unix://relative", "unix://", "unix:///", "unix:///directory/", "unix:/path", "unix:///a\0b"],
  tellsAbruptEnds: false,
  open(_context, sharedMemory) {
    const directory = temporaryDirectory("sockets");
    const transport = new SocketTransport({ clock: realClock(), sharedMemory });
    let count = 0;
    return { listening: transport, connecting: transport, freeAddress: () => `unix://${directory}/${++count}.sock`, drive };
  },
};

const memories = await sharedMemory({ log: SILENT_LOG });

function shared({ name, open, ...rest }: TransportKind): TransportKind {
  return {
    ...rest,
    name: `shared memory over ${name}`,
    open(context) {
      const bench = open(context, memories);
      return { ...bench, listening: new SharedTransport(bench.listening), connecting: new SharedTransport(bench.connecting) };
    },
  };
}

function memory(name: string, simulated: boolean): TransportKind {
  return {
    name,
    badAddresses: ["memory://", "memory:name", "memory://a/b", "memory://a b", "tcp://host:1"],
    tellsAbruptEnds: true,
    open() {
      const simClock = new SimClock();
      const clock = simulated ? simClock : realClock();
      const hub = new MemoryHub();
      let count = 0;
      return {
        listening: new MemoryTransport({ clock, hub }),
        connecting: new MemoryTransport({ clock, hub }),
        freeAddress: () => `memory://node-${++count}`,
        drive: simulated ? async (body) => await simClock.runUntil(body) : drive,
      };
    },
  };
}

function sim(seed: number): TransportKind {
  return {
    name: `sim (seed ${seed})`,
    badAddresses: ["sim://server", "sim://:1", "sim://server:x", "sim://server:1/path", "tcp://server:1"],
    tellsAbruptEnds: true,
    open() {
      const clock = new SimClock({ settle: setImmediate });
      const network = new SimNetwork({ clock, seed });
      return {
        listening: network.host("server"),
        connecting: network.host("worker"),
        freeAddress: () => "sim://server:0",
        drive: async (body) => await clock.runUntil(body),
      };
    },
  };
}

testTransport(TCP);
testTransport(UNIX);
if (memories !== undefined) {
  testTransport(shared(TCP));
  testTransport(shared(UNIX));
}
testTransport(memory("memory", false));
testTransport(memory("memory on a simulated clock", true));
testTransport(sim(1));
testTransport(sim(2));
