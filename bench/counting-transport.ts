// counting-transport — a transport that counts what the links it opened carry, both ways: every byte, frame headers
// included.

import type { Address, ConnectOptions, Link, LinkReader, Listener, Transport } from "../src/transport/transport.ts";

export class CountingTransport implements Transport {
  byteCount = 0;
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  async listen(address: Address, accept: (link: Link) => LinkReader): Promise<Listener> {
    return await this.#transport.listen(address, accept);
  }

  async connect(address: Address, open: (link: Link) => LinkReader, options: ConnectOptions): Promise<Link> {
    return await this.#transport.connect(address, (link) => this.#counted(open(this.#countedLink(link))), options);
  }

  #countedLink(link: Link): Link {
    return {
      remote: link.remote,
      write: (chunks, flushed) => {
        for (const { length } of chunks) this.byteCount += length;
        link.write(chunks, flushed);
      },
      pause: () => link.pause(),
      resume: () => link.resume(),
      close: () => link.close(),
      destroy: () => link.destroy(),
    };
  }

  #counted(reader: LinkReader): LinkReader {
    return {
      view: () => reader.view(),
      received: (byteCount) => {
        this.byteCount += byteCount;
        reader.received(byteCount);
      },
      closed: (cause) => reader.closed(cause),
    };
  }
}
