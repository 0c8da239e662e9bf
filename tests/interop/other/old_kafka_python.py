"""Write ten records with an old kafka-python release and read them back; the arguments are BOOTSTRAP TOPIC
[VERSION].
"""

import json
import sys
import time

import kafka

bootstrap, topic, *rest = sys.argv[1:]
settings = {"bootstrap_servers": bootstrap}
if rest:
    settings["api_version"] = tuple(int(part) for part in rest[0].split("."))
producer = kafka.KafkaProducer(compression_type="gzip", **settings)
for number in range(10):
    producer.send(topic, b"value-%d" % number).get(20)
producer.close()
consumer = kafka.KafkaConsumer(topic, group_id=topic + "-group", auto_offset_reset="earliest", **settings)
values = []
deadline = time.monotonic() + 30
while len(values) < 10 and time.monotonic() < deadline:
    for records in consumer.poll(200).values():
        values += [record.value.decode() for record in records]
consumer.commit()
consumer.close()
print(json.dumps(sorted(values)))
