"""Uses hooks/python/vramplan_callback.py as a training script would: python3 callback_runs.py FOLDER URL KEY."""
import os
import sys
import types
sys.path.insert(0, sys.argv[1])
import vramplan_callback as v

url, key = sys.argv[2], sys.argv[3]
job = {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4090"]}
answer = v.report(job, measured={"allocated_bytes": 3000000000}, url=url, key=key, run="run-1")
assert answer["measured"]["allocated_bytes"] == 3000000000, answer
again = v.report(job, measured={"allocated_bytes": 3000000000}, url=url + "/", key=key, run="run-1")
assert again["id"] == answer["id"], again

# A torch and a driver of our own: 3 GB reserved at the peak and 2 GB now, of 2.4 GB that the process has.

class NVMLError(Exception): pass
class Properties: uuid = "6f1c"
torch = types.SimpleNamespace(__version__="2.9.1+cu128", version=types.SimpleNamespace(cuda="12.8", hip=None), cuda=types.SimpleNamespace(
    current_device=lambda: 1, get_device_properties=lambda i: Properties, memory_reserved=lambda: 2000000000,
    max_memory_reserved=lambda: 3000000000, max_memory_allocated=lambda: 2900000000))
sys.modules["torch"] = torch
def process(pid, used): return types.SimpleNamespace(pid=pid, usedGpuMemory=used)
def driver(processes, prefix="GPU-", cards=1):
    def by_uuid(uuid):
        if uuid != prefix + "6f1c": raise NVMLError(uuid)
        return "card"
    sys.modules["pynvml"] = types.SimpleNamespace(NVMLError=NVMLError, nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: cards,
        nvmlDeviceGetHandleByIndex=lambda i: "card", nvmlDeviceGetHandleByUUID=by_uuid, nvmlDeviceGetComputeRunningProcesses=lambda card: processes)
me, other = os.getpid(), os.getpid() + 1
own = process(me, 2400000000)
def reports(device, why):
    says = []
    v._say = says.append
    measured = v.measure()
    assert measured.get("device_bytes") == device, (measured, says)
    assert measured["allocated_bytes"] == 2900000000 and measured["reserved_bytes"] == 3000000000, measured
    assert len(says) == (device is None) and why in "".join(says), says

for processes, device, why in [
    ([own], 3400000000, ""),
    ([process(other, 9000000000), own], 3400000000, ""),
    ([process(other, 2400000000)], 3400000000, ""),  # in a container, alone on the card
    ([process(other, 2400000000), process(other + 1, 1)], None, "names 2 processes on the card"),
    ([], None, "names 0 processes on the card"),
    ([process(me, None)], None, "does not say what a process takes"),
    ([process(me, 1900000000)], None, "has 1900000000 bytes, and PyTorch has reserved 2000000000"),
]:
    driver(processes)
    reports(device, why)
driver([own], prefix="MIG-")
reports(3400000000, "")
driver([own], prefix="another card: ")
reports(None, "NVMLError")
del Properties.uuid
driver([own])
reports(3400000000, "")
driver([own], cards=2)
reports(None, "which of several cards")
torch.version.hip = "6.4"
reports(None, "AMD")
torch.version.hip = None
sys.modules["pynvml"] = None  # as where it is not installed
reports(None, "pip install nvidia-ml-py")
Properties.uuid = "6f1c"
driver([own])
def _say(what): sys.stderr.write("vramplan: %s\n" % what)
v._say = _say
answer = v.report(job, url=url, key=key)
assert answer["measured"]["device_bytes"] == 3400000000 and answer["versions"]["torch"] == "2.9.1" and answer["torch"] == "2.9.1", answer
del sys.modules["torch"]

v.measure = lambda out_of_memory=False: {"allocated_bytes": 4000000000, "out_of_memory": True}
class State: is_world_process_zero = True
callback = v.VramplanCallback(job, url=url, key=key)
callback.on_train_end(None, State(), None)
State.is_world_process_zero = False
callback.on_train_end(None, State(), None)

assert v.report(job, measured={}, url=url, key=key) is None
assert v.report(job, measured={"allocated_bytes": 1}, url=url, key="wrong") is None
assert v.report(job, measured={"allocated_bytes": 1}, url="http://127.0.0.1:1", key=key) is None
assert v.report({"not json": object()}, measured={}, url=url, key=key) is None
