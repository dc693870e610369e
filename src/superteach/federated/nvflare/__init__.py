"""NVFlare as a carrier: a job that copies documents between a box beside the server and a box beside each client.

Nothing of superteach runs in the job but this copying: sites and coordinator look into their own boxes as ever. Documents
are signed, so NVFlare is trusted with nothing but delivery. Whoever shares an NVFlare server shares its trust all the same:
it has a command channel of its own to every client.

    python -m superteach.federated.nvflare JOB --box BOX     write a job; submit it with NVFlare's own admin console
"""
