module kafkaframes/interop

go 1.21

require (
	github.com/IBM/sarama v1.43.3
	github.com/twmb/franz-go v1.18.1
)
