// simple-apps — the SimpleApps of a node: finds the one that a request is for, waits for one that does not exist yet (peer/app-directory.ts), and gives its
// answer back. The requests are functions like all others (contracts/applications.ts).

import { assert } from "../../base/assert.ts";
import type { Clock } from "../../base/clock.ts";
import { simpleRequest } from "../../contracts/applications.ts";
import { AppDirectory } from "../../peer/app-directory.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import { FunctionHost } from "../../peer/function-host.ts";
import { PlainMemory } from "../../peer/plain-memory.ts";
import { servedFunction } from "../../peer/served-function.ts";
import type { FrameHeader, RequestLabel } from "../../wire/frame.ts";

/** Answers a request now or later; the body is its own. The label is valid until it returns. */
export type SimpleServe = (channel: Channel, body: Uint8Array, label: RequestLabel) => Promise<Uint8Array>;

export type SimpleAppsOptions = {
  readonly clock: Clock;
  /** True on workers: one application may have several customers there. */
  readonly byCustomer: boolean;
};

export class SimpleApps implements FunctionHandler {
  readonly #byCustomer: boolean;
  readonly #directory: AppDirectory;
  readonly #host: FunctionHost<Channel>;
  readonly #apps = new Map<string, SimpleServe>();

  constructor({ clock, byCustomer }: SimpleAppsOptions) {
    this.#byCustomer = byCustomer;
    this.#directory = new AppDirectory({ clock, byCustomer });
    this.#host = new FunctionHost({
      clock,
      memory: new PlainMemory(),
      contextOf: (channel) => channel,
    });
    this.#host.add(
      servedFunction(simpleRequest, {
        handler: async (channel: Channel, { body }, { label }) => ({ body: await this.#serveOf(label)(channel, body, label) }),
      }),
    );
  }

  /** Throws BAD_ARGUMENT when there is such an application, on a worker with this customer. */
  add(app: number, customer: number, serve: SimpleServe): void {
    this.#directory.add(app, this.#host, customer);
    this.#apps.set(this.#nameOf(app, customer), serve);
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return this.#directory.destination(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    this.#directory.handle(channel, header, bytes, at, fresh);
  }

  close(): void {
    this.#directory.close();
    this.#host.close();
  }

  #serveOf(label: RequestLabel): SimpleServe {
    const serve = this.#apps.get(this.#nameOf(label.app, label.customer));
    assert(serve !== undefined, "the directory lets through what has an application");
    return serve;
  }

  #nameOf(app: number, customer: number): string {
    return this.#byCustomer ? `${app}/${customer}` : `${app}`;
  }
}
