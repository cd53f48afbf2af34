// no-cuda — what a machine without CUDA, or with a part of it, says. A driver of plain functions stands in for
// NVIDIA's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { COMPILER, DRIVER, PLATFORM, returns, type StandIns, standIns } from "../../test/support/stand-in-cuda.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { openCuda } from "./cuda.ts";

const NO_DEVICE = 100;
const OUT_OF_MEMORY = 2;

const open = (functions: StandIns, devicesPerCard = 1) =>
  openCuda({ nativeCalls: async () => standIns(functions), devicesPerCard, platform: PLATFORM });

test("without koffi, driver, card or compiler opening CUDA is NO_DEVICE, which says what is missing", {
  skip: process.platform !== "linux" && "the names are those of Linux",
}, async () => {
  const nativeCalls = (): Promise<never> => Promise.reject(new Error("Cannot find package 'koffi'"));
  await assert.rejects(openCuda({ nativeCalls }), throwsCode("NO_DEVICE", /koffi is not installed.*device: "cpu" needs none/));
  await assert.rejects(open({}), throwsCode("NO_DEVICE", /NVIDIA's driver does not load \(libcuda\.so\.1: cannot open/));
  await assert.rejects(open({ [DRIVER]: { cuInit: () => NO_DEVICE } }), throwsCode("NO_DEVICE", /does not start: .*\(100/));
  await assert.rejects(open({ [DRIVER]: { cuDeviceGetCount: returns(0) } }), throwsCode("NO_DEVICE", /finds no card/));
  await assert.rejects(
    open({ [DRIVER]: { cuDeviceGetCount: returns(1) } }),
    throwsCode("NO_DEVICE", /NVRTC.*does not load.*LD_LIBRARY_PATH/),
  );
});

test("devices are numbered over the cards, devicesPerCard on each; other numbers are BAD_ARGUMENT", {
  skip: process.platform !== "linux" && "the names are those of Linux",
}, async () => {
  await assert.rejects(open({}, 0), throwsCode("BAD_ARGUMENT", /devicesPerCard/));
  const cuda = await open({ [DRIVER]: { cuDeviceGetCount: returns(2) }, [COMPILER]: {} }, 3);
  assert.deepEqual(
    [0, 2, 3, 5].map((number) => cuda.device(number).card.ordinal),
    [0, 0, 1, 1],
  );
  assert.throws(() => cuda.device(6), throwsCode("BAD_ARGUMENT", /no device 6: this machine's cards are 2, with 3 devices each/));
  cuda.close();
});

test("memory that the driver does not give is DEVICE_MEMORY_FULL, and a card that was closed CLOSED", {
  skip: process.platform !== "linux" && "the names are those of Linux",
}, async () => {
  const driver = { cuDeviceGetCount: returns(1), cuMemAlloc_v2: () => OUT_OF_MEMORY };
  const cuda = await open({ [DRIVER]: driver, [COMPILER]: {} });
  const device = cuda.device(0);
  assert.throws(() => device.allocate([5]), throwsCode("DEVICE_MEMORY_FULL", /card 0 .*no 20 bytes of memory/));
  cuda.close();
  assert.throws(() => device.allocate([5]), throwsCode("CLOSED", /card 0/));
});
