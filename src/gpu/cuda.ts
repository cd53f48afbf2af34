// cuda — opens CUDA and knows the cards and logical devices of the machine.

import { badArgument, reasonOf, showValue } from "../base/errors.ts";
import { CudaCard } from "./cuda-card.ts";
import { type CudaCompiler, loadCudaCompiler } from "./cuda-compiler.ts";
import { CudaDevice } from "./cuda-device.ts";
import { type CudaDriver, loadCudaDriver, type NativeLibraries, noDevice } from "./cuda-driver.ts";
import { TensorRefs } from "./tensor-refs.ts";

export type CudaOptions = {
  /** Rejects if koffi is not installed. */
  readonly nativeCalls: () => Promise<NativeLibraries>;
  /** How many logical devices share a card: device d is on card ⌊d / devicesPerCard⌋. Defaults to 1. */
  readonly devicesPerCard?: number;
  /** As Node names it. For tests. */
  readonly platform?: string;
};

/** Rejects with NO_DEVICE if there is no koffi, no driver, no compiler or no card. */
export async function openCuda({ nativeCalls, devicesPerCard = 1, platform }: CudaOptions): Promise<Cuda> {
  if (!Number.isSafeInteger(devicesPerCard) || devicesPerCard < 1)
    throw badArgument(`devicesPerCard is a whole number above 0, not ${showValue(devicesPerCard)}`);
  let native: NativeLibraries;
  try {
    native = await nativeCalls();
  } catch (thrown) {
    throw noDevice(`the optional package koffi is not installed or does not work (${reasonOf(thrown)})`, thrown);
  }
  const driver = loadCudaDriver(native, platform);
  const cardCount = driver.readInt("cuDeviceGetCount", driver.functions.cuDeviceGetCount);
  if (cardCount === 0) throw noDevice("the driver finds no card");
  return new Cuda(driver, loadCudaCompiler(native), { cardCount, devicesPerCard });
}

/** The NVIDIA cards of this machine. `openCuda()` finds them. */
export class Cuda {
  readonly cardCount: number;
  readonly devicesPerCard: number;
  readonly #driver: CudaDriver;
  readonly #compiler: CudaCompiler;
  readonly #cards = new Map<number, CudaCard>();
  readonly #devices = new Map<number, CudaDevice>();
  readonly #refs = new TensorRefs();

  /** @internal */
  constructor(
    driver: CudaDriver,
    compiler: CudaCompiler,
    { cardCount, devicesPerCard }: { readonly cardCount: number; readonly devicesPerCard: number },
  ) {
    this.#driver = driver;
    this.#compiler = compiler;
    this.cardCount = cardCount;
    this.devicesPerCard = devicesPerCard;
  }

  /** The device of this number, the same object each time. Throws BAD_ARGUMENT if no card has it. */
  device(number: number): CudaDevice {
    const deviceCount = this.cardCount * this.devicesPerCard;
    if (!Number.isSafeInteger(number) || number < 0 || number >= deviceCount)
      throw badArgument(
        `there is no device ${showValue(number)}: this machine's cards are ${this.cardCount}, with ${this.devicesPerCard} devices each ` +
          `(devicesPerCard), so numbers are 0 to ${deviceCount - 1}`,
      );
    let device = this.#devices.get(number);
    if (device === undefined) {
      device = new CudaDevice(number, this.#card(Math.floor(number / this.devicesPerCard)));
      this.#devices.set(number, device);
    }
    return device;
  }

  /** Frees everything that its devices hold; waits that are open end with CLOSED. */
  close(): void {
    for (const device of this.#devices.values()) device.close();
    for (const card of this.#cards.values()) card.close();
    this.#devices.clear();
    this.#cards.clear();
  }

  #card(ordinal: number): CudaCard {
    let card = this.#cards.get(ordinal);
    if (card === undefined) {
      card = new CudaCard(this.#driver, this.#compiler, { ordinal, refs: this.#refs });
      this.#cards.set(ordinal, card);
    }
    return card;
  }
}
