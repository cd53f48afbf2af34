// 13-dist-async-sum — machines that share a model through a server: each adds up what its two devices push, the server
// adds up what the machines push, and nobody waits for another machine.

import { createSharedModel } from "weighbridge/shared-model";

const devices = [1, 2];
const model = createSharedModel("dist", { updater: { type: "sum" } });
await model.init(devices); // joins the cluster, as the launcher says
const shape = [2, 3];
const pulled = await Promise.all(
  devices.map(async (device) => {
    for (const key of [0, 1]) await model.initKey(shape, key, device);
    const data = [0, 1].map((key) => model.tensor(shape, device).fill(key * device));
    for (const key of [0, 1]) {
      model.push(data[key]!, key, device, -key); // the first layer is the most urgent one
      model.pullReq(data[key]!, key, device, -key);
    }
    for (const key of [0, 1]) await model.pullWait(key, device);
    return data.map((values) => values.join(" ")).join(" / ");
  }),
);
console.log(`both devices hold ${pulled[0]}${pulled[0] === pulled[1] ? "" : `, no: the other one holds ${pulled[1]}`}`);
await model.close();
