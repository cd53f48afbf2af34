// device-slots — Goal: the layer sees the rows that were used last, and never loses one that is needed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { DeviceSlots } from "./device-slots.ts";
import { NO_SLOT } from "./row-source.ts";

test("rows take free slots first, then those of rows that were not used for the longest time", () => {
  const device = new DeviceSlots({ slotCount: 2, rowCount: 5 });
  const show = (row: number, stamp: number): number => {
    const { slot } = device.vacate(stamp);
    if (slot !== NO_SLOT) device.show(row, slot, stamp);
    return slot;
  };
  const [first, second] = [show(0, 1), show(1, 1)];
  assert.notEqual(first, second);
  assert.equal(show(2, 1), NO_SLOT, "both are needed at this stamp");
  device.use(first, 2);
  assert.deepEqual([show(2, 2), device.slotOf(1)], [second, NO_SLOT]);
  assert.deepEqual([device.slotOf(0), device.slotOf(2)], [first, second]);
  device.hide(0);
  device.hide(0);
  assert.deepEqual([show(3, 2), device.slotOf(0), device.slotOf(3)], [first, NO_SLOT, first]);
  assert.equal(device.vacate(3).isTaken, true);
});
