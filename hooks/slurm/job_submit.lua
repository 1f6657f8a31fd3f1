--[[ vramplan as a job_submit plugin (JobSubmitPlugins=lua). It runs inside slurmctld, which holds its locks
meanwhile, so it starts no process, opens no connection and reads no file: it only looks at the verdict
that cli_filter.lua wrote into the job's comment (record_verdict), on the partitions that want one
(require_verdict). Without such partitions it lets everything pass, and need not be installed.

A user can write such a comment by hand. The plugin catches the ways around the client's filter that people
take without meaning to (another client, the REST interface), and leaves a line in slurmctld's log for each.

Settings: vramplan_hook.lua in the same directory, read when slurmctld loads this file; touch it after a change. ]]

local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "/etc/slurm/"

local settings = {}
do
	local chunk = loadfile(here .. "vramplan_hook.lua")
	local ok, s = false, nil
	if chunk then ok, s = pcall(chunk) end
	if ok and type(s) == "table" then settings = s end
end

local rank = { off = 0, audit = 1, warn = 2, enforce = 3 }

-- wanted is the weakest mode among the job's partitions, nil where one of them wants no verdict.
local function wanted(partition)
	local weakest
	for name in (partition or settings.default_partition or ""):gmatch("[^,]+") do
		if not (settings.require_verdict or {})[name] then return nil end
		local mode = (settings.partitions or {})[name] or settings.mode or "audit"
		if not rank[mode] then mode = "audit" end
		if not weakest or rank[mode] < rank[weakest] then weakest = mode end
	end
	return weakest
end

local function asks_for_gpu(job)
	for _, field in ipairs({ "tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket", "gres" }) do
		local ok, value = pcall(function() return job[field] end)
		if ok and type(value) == "string" and value:find("gpu", 1, true) then return true end
	end
	return false
end

local function check(job, uid)
	local mode = wanted(job.partition)
	if not mode or mode == "off" or not asks_for_gpu(job) then return slurm.SUCCESS end
	local user = job.user_name
	if uid == 0 and (settings.exempt_users or {}).root or user and (settings.exempt_users or {})[user] then return slurm.SUCCESS end
	local comment = job.comment or ""
	local reason = comment:match("vramplan:override=%s*(%S.*)")
	local verdict = comment:match("vramplan:verdict=([%a_]+)")
	if reason or verdict and verdict ~= "does_not_fit" then
		slurm.log_info("vramplan: uid %d: verdict %s%s", uid, verdict or "none", reason and ", overridden" or "")
		return slurm.SUCCESS
	end
	local why = verdict and "does not fit" or "was not checked"
	slurm.log_info("vramplan: uid %d: a job that %s, mode %s", uid, why, mode)
	if mode == "audit" then return slurm.SUCCESS end
	slurm.log_user("vramplan: this job %s. Jobs for this partition are checked by sbatch; to run one anyway: sbatch --comment='vramplan:override=REASON'", why)
	return mode == "enforce" and slurm.ERROR or slurm.SUCCESS
end

function slurm_job_submit(job_desc, part_list, submit_uid)
	local ok, result = pcall(check, job_desc, submit_uid)
	if not ok then
		slurm.log_error("vramplan: the job is submitted unchecked: %s", tostring(result))
		return slurm.SUCCESS
	end
	return result
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end

return slurm.SUCCESS
