"""The security settings of Kafka's Java clients (JAAS, key stores, OpenID Connect), converted to the settings of this
package.
"""
