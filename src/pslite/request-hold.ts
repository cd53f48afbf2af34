// request-hold — requests that wait until a node can take them. They keep their order, also those that come while the
// first ones leave.

export class RequestHold {
  #holdCount = 0;
  readonly #waiting: (() => void)[] = [];

  /** Nothing leaves until the returned function is called, and those of all other holds. */
  hold(): () => void {
    this.#holdCount++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--this.#holdCount === 0) this.#drain();
    };
  }

  get isOpen(): boolean {
    return this.#holdCount === 0;
  }

  /** Calls `send` now, or in its turn once nothing holds it. */
  whenOpen(send: () => void): void {
    if (this.isOpen) send();
    else this.#waiting.push(send);
  }

  #drain(): void {
    while (this.isOpen) {
      const send = this.#waiting.shift();
      if (send === undefined) return;
      send();
    }
  }
}
